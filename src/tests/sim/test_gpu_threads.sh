#!/bin/sh
# time limit: 400 s
# Ranks of one process on the simulated GPU. Left out is what needs several devices, connections
# between executors or a host device's queues.
. "$(dirname "$0")/gpu.sh"

borrow test_gates --only 'threads:' --only 'an abort' --only 'another communicator' \
    --only 'many gates' --only 'calls ahead'
borrow test_join --only 'every collective, mode' --only 'not wait for its peers' \
    --only 'equal streams' --only 'ranks of a device disagree' --only 'average and PreMulSum'
borrow test_p2p
borrow_but 'calls' test_order
borrow_but 'across' test_exchange
borrow test_endurance
borrow test_family
borrow test_grow
borrow test_life
borrow test_nonblocking
borrow test_suspend
borrow test_settings --only 'buffers' --only 'registration'
finish
