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
finish
