#!/bin/sh
# time limit: 400 s
# Results of calls.
# Written for host devices, on one GPU. Left out is what needs several devices, connections between
# executors or a host device's queues.
. "$(dirname "$0")/lib.sh"
export NCCL_MULTI_RANK_GPU_ENABLE=1

borrow test_operators
borrow test_counts --only 'no elements' --only 'every count' --only 'no share divides' \
    --only 'every offset' --only 'not used'
borrow test_arith --only 'one executor' --only 'several executors'
borrow test_rma
borrow test_windows
finish
