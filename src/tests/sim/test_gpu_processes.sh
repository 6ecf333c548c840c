#!/bin/sh
# time limit: 400 s
# Ranks of several processes on the simulated GPU.
. "$(dirname "$0")/gpu.sh"

borrow test_gates --only 'processes:'
borrow test_mixed
borrow_but 'of two' test_agree
borrow test_exchange --only 'across'
borrow_but 'messages' test_process
borrow_but 'leaves while|sizes|80 comm' test_process_faults
borrow test_ends_across
finish
