#!/bin/sh
# slice: no
# What ptxas said of every kernel when it was built, for each architecture: at most 64 registers, so
# that two CTAs of 512 threads share an SM, no stack, which would make the first launch wait for the
# device, and no spills.
cd "$(dirname "$0")/../../.." || exit 3
. src/tests/build/tap.sh
nvcc=${CUDA_HOME:+$CUDA_HOME/bin/nvcc}
[ -n "$nvcc" ] || nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
if [ -z "$nvcc" ] || ! ls "$build"/obj/src/lib/kernel/*.ptxas >/dev/null 2>&1; then
    skip "registers and stack of the kernels" "no nvcc, or CUDA is off"
    echo "1..$number"
    exit
fi
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

# judge FILE…: breaches, one a line, then the number of kernels.
judge() {
    awk '
    match($0, /entry function .[A-Za-z0-9_]+/) {
        kernel = substr($0, RSTART + 16, RLENGTH - 16)
        match($0, /sm_[0-9]+/)
        kernel = kernel " for " substr($0, RSTART, RLENGTH)
        n++
    }
    /bytes stack frame/ && !/ 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads/ {
        print kernel ": " $0
    }
    match($0, /Used [0-9]+ registers/) {
        if (substr($0, RSTART + 5, RLENGTH - 15) + 0 > 64) print kernel ": " $0
    }
    END { print n + 0 " kernels" }' "$@"
}

sources=$(make -s -f - list <<'MAKE'
include src/lib/lib.mk
list:
	@echo $(filter src/lib/kernel/%,$(CU_SRCS))
MAKE
)
# shellcheck disable=SC2086
kernels=$(cat $sources | grep -cE '^(CCL_(LOCAL|SCHED)_KERNEL|extern "C" __global__)')
said=$(for s in $sources; do echo "$build/obj/$s.ptxas"; done)
# shellcheck disable=SC2086
archs=$(cat $said | grep -oE "for 'sm_[0-9]+'" | sort -u | wc -l)
# shellcheck disable=SC2086
same "all kernels fit, for $archs architectures" "$((kernels * archs)) kernels" "$(judge $said)"
if [ "$kernels" -gt 0 ] && [ "$archs" -gt 0 ]; then
    pass "kernels are found"
else
    fail "kernels are found" "$kernels kernels in $sources, $archs architectures"
fi

# The check itself: a stack and too many registers are seen.
cat >"$work/large.cu" <<'SOURCE'
extern "C" __global__ void has_stack(int *at, int i)
{
    int all[64];
    for (int k = 0; k < 64; k++) all[k] = at[k] * k;
    all[i] += all[i + 1];
    at[0] = all[at[i]];
}
extern "C" __global__ void __launch_bounds__(256) has_registers(int *at)
{
    int all[96];
#pragma unroll
    for (int k = 0; k < 96; k++) all[k] = at[k * 7 + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 96; k++) at[k * 5 + threadIdx.x] = all[95 - k];
}
SOURCE
"$nvcc" -O3 -Xptxas -v -gencode=arch=compute_90,code=sm_90 -cubin -o "$work/large.cubin" \
    "$work/large.cu" 2>"$work/large.90"
expect "a stack is seen" 0 "^has_stack for sm_90: .*bytes stack" judge "$work/large.90"
expect "registers are seen" 0 "^has_registers for sm_90: .*Used" judge "$work/large.90"
echo "1..$number"
