#!/bin/sh
# time limit: 400 s
# Order of calls, joins, messages, disagreement.
# Written for host devices, on one GPU. Left out is what needs several devices, connections between
# executors or a host device's queues.
. "$(dirname "$0")/lib.sh"
export NCCL_MULTI_RANK_GPU_ENABLE=1

borrow test_join --only 'every collective, mode' --only 'not wait for its peers' \
    --only 'equal streams' --only 'ranks of a device disagree' --only 'average and PreMulSum'
borrow_but 'over connections' test_order
borrow test_agree
borrow test_p2p
borrow test_exchange
finish
