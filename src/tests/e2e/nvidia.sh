# Where a libnccl.so.2 of NVIDIA lies, for tests that source this: what NCCL_LIBRARY names, else the
# usual places. Prints nothing when there is none.
find_nvidia() {
    [ -z "$NCCL_LIBRARY" ] || { echo "$NCCL_LIBRARY"; return; }
    torch=$(python3 -c 'import nvidia.nccl as n; print(list(n.__path__)[0])' 2>/dev/null)
    for path in /usr/local/cuda/lib64 /usr/lib/x86_64-linux-gnu "${torch:-/none}/lib"; do
        [ ! -e "$path/libnccl.so.2" ] || { echo "$path/libnccl.so.2"; return; }
    done
}
