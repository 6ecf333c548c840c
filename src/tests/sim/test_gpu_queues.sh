#!/bin/sh
# time limit: 400 s
# The simulated GPU with few and many hardware queues, with launches that block, and under MPS.
. "$(dirname "$0")/gpu.sh"
export GPU_RUNS=3

# Random configurations, from threads, in groups, captured and from processes.
under() {
    export "${1?}"
    borrow_under=" with $1"
    borrow test_random
    borrow test_process --only 'in a row'
}
# One thread calls for several ranks apart: a call may neither block nor be alone with a queue.
apart() {
    borrow test_p2p --only 'any order' --only 'two streams'
    borrow test_gates --only 'many calls ahead' --only 'another communicator'
    borrow test_exchange --only 'opposite orders across'
    borrow test_process --only 'wait for its peers'
}
for setting in CUDA_DEVICE_MAX_CONNECTIONS=2 CUDA_DEVICE_MAX_CONNECTIONS=32; do
    under $setting
    apart
done
under CUDA_DEVICE_MAX_CONNECTIONS=1
unset CUDA_DEVICE_MAX_CONNECTIONS
under CUDA_LAUNCH_BLOCKING=1
borrow test_rma --only 'from threads'
unset CUDA_LAUNCH_BLOCKING
under SIM_GPU_MPS=1
apart
borrow test_rma_across --only 'ball' --only 'signals far ahead'
finish
