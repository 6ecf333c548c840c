#!/bin/sh
# time limit: 400 s
# Ranks of several processes on the simulated GPU.
. "$(dirname "$0")/gpu.sh"

borrow test_gates --only 'processes:'
borrow test_mixed
borrow test_agree
borrow test_exchange --only 'across'
borrow test_process
borrow test_process_faults
borrow test_ends_across
borrow test_family_across
borrow test_rma_across

begin 'the log tells who leads the GPU, how buffers reach it and how calls came together'
NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,REG,PROXY,TUNING NCCL_DEBUG_FILE="$tmp/gpu.%p" \
    run 120 "$borrow_from/test_process" --only 'free choice' # red: a log stays open
cat "$tmp"/gpu.* >"$out"
want_out 'executor 0 is device 0 of rank 0, .*; its process runs the kernels of all$'
want_out 'reached by nothing, one device has all ranks'
want_out 'executor 0: buffer 0x[0-9a-f]+ of [0-9]+ bytes, for the process of rank 0: mapped there'
want_out 'executor 0: a thread launches what the processes of ranks are late for'
want_out 'direct - on at most [0-9]+ CTAs, .* led by rank 0: 2 calls joined by events, 6 of other'
end
finish
