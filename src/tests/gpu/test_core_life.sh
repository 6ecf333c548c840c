#!/bin/sh
# time limit: 400 s
# Life and ends of communicators, the interface.
# Written for host devices, on one GPU. Left out is what needs several devices, connections between
# executors or a host device's queues.
. "$(dirname "$0")/lib.sh"
export NCCL_MULTI_RANK_GPU_ENABLE=1

borrow test_endurance
borrow test_family
borrow test_grow
borrow test_life
borrow test_nonblocking
borrow test_suspend
borrow test_ends
borrow test_handles
borrow test_conform_api
borrow test_settings --only 'buffers' --only 'registration'
finish
