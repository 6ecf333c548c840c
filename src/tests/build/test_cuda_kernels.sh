#!/bin/sh
# time limit: 600 s
# slice: no
# What ptxas says of every kernel, for sm_80 and sm_90: at most 64 registers, so that two CTAs of
# 512 threads share an SM, no stack, which would make the first launch wait for the device, and no
# spills. Compiled anew for each architecture; nothing of the build is needed.
cd "$(dirname "$0")/../../.." || exit 3
. src/tests/build/tap.sh
nvcc=${CUDA_HOME:+$CUDA_HOME/bin/nvcc}
[ -n "$nvcc" ] || nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
if [ -z "$nvcc" ] || ! make report | grep -q '^CUDA: on'; then
    skip "registers and stack of the kernels" "no nvcc, or CUDA is off"
    echo "1..$number"
    exit
fi
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
export nvcc work

# compile ARCH SOURCE [FLAG…]: what ptxas says goes to $work/NAME.ARCH.
cat >"$work/compile" <<'SCRIPT'
arch=$1 source=$2
shift 2
name=$(basename "$source" .cu)
"$nvcc" -Isrc/lib -O3 -std=c++17 --fmad=false "$@" -Xptxas -v \
    -gencode="arch=compute_$arch,code=sm_$arch" -cubin -o "$work/$name.$arch.cubin" "$source" \
    >"$work/$name.$arch" 2>&1 || echo "nvcc failed: $source for sm_$arch" >>"$work/$name.$arch"
SCRIPT

# judge FILE…: breaches, one a line, then the number of kernels.
judge() {
    awk '
    /nvcc failed|error/ { print; next }
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
for arch in 80 90; do
    for source in $sources; do echo "$arch $source"; done
done | xargs -P 2 -L 1 sh "$work/compile"
expected=0
for arch in 80 90; do
    n=$(cat $sources | grep -cE '^(CCL_(LOCAL|SCHED)_KERNEL|extern "C" __global__)')
    expected=$((expected + n))
    # shellcheck disable=SC2086
    same "sm_$arch: all kernels fit" "$n kernels" \
        "$(judge $(for s in $sources; do echo "$work/$(basename "$s" .cu).$arch"; done))"
done
[ $expected -gt 0 ] || fail "kernels are found" "none in $sources"

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
sh "$work/compile" 90 "$work/large.cu"
expect "a stack is seen" 0 "^has_stack for sm_90: .*bytes stack" judge "$work/large.90"
expect "registers are seen" 0 "^has_registers for sm_90: .*Used" judge "$work/large.90"
echo "1..$number"
