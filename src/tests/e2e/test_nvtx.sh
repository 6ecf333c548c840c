#!/bin/sh
# slice: no
# Ranges for profilers: a library that NVTX loads in place of one prints what begins and ends.
. "$(dirname "$0")/lib.sh"
nvcc=${CUDA_HOME:+$CUDA_HOME/bin/nvcc}
[ -n "$nvcc" ] || nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
include=$(dirname "$(dirname "$nvcc")")/include
if [ ! -f "$BUILDDIR/obj/src/lib/kernel/cuda_launch.cu.o" ] ||
    [ ! -f "$include/nvtx3/nvToolsExt.h" ] || ! has cc || is_sanitized; then
    skip 'ranges' 'built without CUDA, no header of NVTX, no compiler, or a sanitizer'
    finish
fi

cat >"$tmp/profiler.c" <<'END'
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
static int depth;
static int NVTX_API push(const char *name)
{
    fprintf(stderr, "range %d begins: %s\n", ++depth, name);
    return depth;
}
static int NVTX_API pop(void)
{
    fprintf(stderr, "range %d ends\n", depth);
    return --depth;
}
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get);
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get)
{
    const NvtxExportTableCallbacks *callbacks = get(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned int n;
    if (callbacks == NULL || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &n))
        return 0;
    *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
    return 1;
}
END

begin 'calls are ranges, which end where they began'
want 'the profiler cannot be built' cc -w -shared -fPIC -I "$include" -o "$tmp/profiler.so" \
    "$tmp/profiler.c" -ldl
NVTX_INJECTION64_PATH=$tmp/profiler.so perf all_reduce -g 2 -b 8 -e 8 -n 1 -w 0 -c 0
want_code 0
for call in ncclCommInitAll ncclAllReduce ncclGroupEnd ncclCommDestroy; do
    want_err "range 1 begins: $call\$"
done
want 'ranges begin and do not end' [ "$(grep -c 'range .* begins' "$err")" = \
    "$(grep -c 'range .* ends' "$err")" ]
end

begin 'without a profiler there is nothing'
perf all_reduce -g 2 -b 8 -e 8 -n 1
want_code 0
want_not_err 'range'
end
finish
