#!/bin/sh
# Asks all probes, then those that MPS changes once more under an MPS daemon of its own, where there
# is one. Run in the root after `make probes`; takes about three minutes; never hangs. The daemon's
# folder and the daemon are gone afterwards.
probe=${BUILDDIR:-build}/tests/probe
bad=0
nvidia-smi --query-gpu=name,driver_version,compute_mode --format=csv,noheader
timeout 450 "$probe" all || bad=1

if ! command -v nvidia-cuda-mps-control >/dev/null; then
    echo "no MPS daemon here: not asked under MPS"
    exit $bad
fi
folder=$(mktemp -d) || exit 3
export CUDA_MPS_PIPE_DIRECTORY="$folder" CUDA_MPS_LOG_DIRECTORY="$folder"
trap 'echo quit | timeout 20 nvidia-cuda-mps-control >/dev/null; rm -rf "$folder"' EXIT
echo "==== under MPS"
timeout 20 nvidia-cuda-mps-control -d || exit 3
timeout 200 "$probe" memops-2 memops-4 memops-8 queues queues-1 queues-32 copies \
    legacy-free chunk-free gates || bad=1
exit $bad
