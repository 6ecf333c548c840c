#!/bin/sh
# time limit: 600 s
# Tests of several processes, and of what becomes of the others when one ends, on one GPU.
. "$(dirname "$0")/lib.sh"
export NCCL_MULTI_RANK_GPU_ENABLE=1

borrow test_process
borrow test_process_faults
borrow test_ends_across
borrow test_family_across
borrow test_rma_across
finish
