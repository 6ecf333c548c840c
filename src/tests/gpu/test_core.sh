#!/bin/sh
# time limit: 900 s
# Tests of the core and of the interface that were written for host devices, on one GPU. Left out is
# what needs several devices, connections between executors or a host device's queues.
. "$(dirname "$0")/lib.sh"
export NCCL_MULTI_RANK_GPU_ENABLE=1

borrow test_arith --only 'one executor' --only 'several executors'
borrow test_counts --only 'no elements' --only 'every count' --only 'no share divides' \
    --only 'every offset' --only 'not used'
borrow test_operators
borrow test_join --only 'every collective, mode' --only 'not wait for its peers' \
    --only 'equal streams' --only 'ranks of a device disagree' --only 'average and PreMulSum'
borrow_but 'over connections' test_order
borrow_but 'status of waits' test_life
borrow test_handles
borrow test_agree
borrow test_ends
borrow test_conform_api
borrow_but 'sizes differ' test_p2p
borrow test_exchange
finish
