# Sources of the drivers and of the tests, one a line, sorted. What is not listed is not built.

# Drivers: NAME stands for src/tests/NAME.c and builds build/NAME_perf.
DRIVERS += all_gather
DRIVERS += all_reduce
DRIVERS += alltoall
DRIVERS += alltoallv
DRIVERS += broadcast
DRIVERS += gather
DRIVERS += hypercube
DRIVERS += oneway
DRIVERS += pingpong
DRIVERS += reduce
DRIVERS += reduce_scatter
DRIVERS += scatter
DRIVERS += sendrecv
DRIVERS += twoway

# The harness: part of every driver, and of the unit tests that need it.
HARNESS_SRCS += src/tests/harness/agree.c
HARNESS_SRCS += src/tests/harness/alltoallv_matrix.c
HARNESS_SRCS += src/tests/harness/baseline.c
HARNESS_SRCS += src/tests/harness/baseline_heads.c
HARNESS_SRCS += src/tests/harness/buffers.c
HARNESS_SRCS += src/tests/harness/columns.c
HARNESS_SRCS += src/tests/harness/comms.c
HARNESS_SRCS += src/tests/harness/compare.c
HARNESS_SRCS += src/tests/harness/devices.c
HARNESS_SRCS += src/tests/harness/devices_host.c
HARNESS_SRCS += src/tests/harness/ending.c
HARNESS_SRCS += src/tests/harness/expected.c
HARNESS_SRCS += src/tests/harness/fill.c
HARNESS_SRCS += src/tests/harness/help.c
HARNESS_SRCS += src/tests/harness/json.c
HARNESS_SRCS += src/tests/harness/json_read.c
HARNESS_SRCS += src/tests/harness/library.c
HARNESS_SRCS += src/tests/harness/machine.c
HARNESS_SRCS += src/tests/harness/main.c
HARNESS_SRCS += src/tests/harness/marks.c
HARNESS_SRCS += src/tests/harness/nvml.c
HARNESS_SRCS += src/tests/harness/oob.c
HARNESS_SRCS += src/tests/harness/oob_hub.c
HARNESS_SRCS += src/tests/harness/oob_link.c
HARNESS_SRCS += src/tests/harness/options.c
HARNESS_SRCS += src/tests/harness/pairs.c
HARNESS_SRCS += src/tests/harness/pattern.c
HARNESS_SRCS += src/tests/harness/preflight.c
HARNESS_SRCS += src/tests/harness/record.c
HARNESS_SRCS += src/tests/harness/record_file.c
HARNESS_SRCS += src/tests/harness/redop.c
HARNESS_SRCS += src/tests/harness/reference.c
HARNESS_SRCS += src/tests/harness/report.c
HARNESS_SRCS += src/tests/harness/report_flat.c
HARNESS_SRCS += src/tests/harness/report_gate.c
HARNESS_SRCS += src/tests/harness/report_json.c
HARNESS_SRCS += src/tests/harness/report_junit.c
HARNESS_SRCS += src/tests/harness/report_text.c
HARNESS_SRCS += src/tests/harness/run.c
HARNESS_SRCS += src/tests/harness/run_check.c
HARNESS_SRCS += src/tests/harness/run_combine.c
HARNESS_SRCS += src/tests/harness/run_graph.c
HARNESS_SRCS += src/tests/harness/run_iters.c
HARNESS_SRCS += src/tests/harness/run_memory.c
HARNESS_SRCS += src/tests/harness/run_time.c
HARNESS_SRCS += src/tests/harness/selftest.c
HARNESS_SRCS += src/tests/harness/signals.c
HARNESS_SRCS += src/tests/harness/sizes.c
HARNESS_SRCS += src/tests/harness/split.c
HARNESS_SRCS += src/tests/harness/stats.c
HARNESS_SRCS += src/tests/harness/suggest.c
HARNESS_SRCS += src/tests/harness/timing.c
HARNESS_SRCS += src/tests/harness/trial_device.c
HARNESS_SRCS += src/tests/harness/trial_host.c
HARNESS_SRCS += src/tests/harness/types.c
HARNESS_SRCS += src/tests/harness/usage.c
HARNESS_SRCS += src/tests/harness/values.c
HARNESS_SRCS += src/tests/harness/verdict.c
HARNESS_SRCS += src/tests/harness/watchdog.c
HARNESS_SRCS += src/tests/harness/world.c
HARNESS_SRCS += src/tests/harness/world_all.c
HARNESS_SRCS += src/tests/harness/world_env.c
HARNESS_SRCS += src/tests/harness/world_mpi.c
HARNESS_SRCS += src/tests/harness/world_spawn.c
HARNESS_SRCS += src/tests/harness/world_thread.c

# What the harness needs of CUDA where nvcc is found, and what stands for it elsewhere.
HARNESS_CU_SRCS += src/tests/harness/cuda_device.c
HARNESS_CU_SRCS += src/tests/harness/cuda_values.cu
HARNESS_NO_CU_SRCS += src/tests/harness/cuda_none.c

# The MPI plugin of the drivers, compiled by mpicc to build/chorus_mpi.so where mpicc is found.
MPI_PLUGIN_SRC := src/tests/harness/mpi_plugin.c

# The test framework: part of every unit and conformance test.
TEST_SRCS += src/tests/unit/child.c
TEST_SRCS += src/tests/unit/leftover.c
TEST_SRCS += src/tests/unit/lib_hooks.c
TEST_SRCS += src/tests/unit/memory.c
TEST_SRCS += src/tests/unit/test.c

# Unit tests: NAME stands for src/tests/unit/NAME.c and builds build/tests/NAME, linked with the
# static library (internals are reachable), the harness and the framework.
# Further sources of one test: NAME_SRCS += src/tests/unit/more.c
UNIT_TESTS += test_arena
UNIT_TESTS += test_base
UNIT_TESTS += test_base_env
UNIT_TESTS += test_baseline
UNIT_TESTS += test_boot
UNIT_TESTS += test_boot_mesh
UNIT_TESTS += test_boot_strangers
UNIT_TESTS += test_boot_wire
UNIT_TESTS += test_device
UNIT_TESTS += test_device_keep
UNIT_TESTS += test_device_streams
UNIT_TESTS += test_framework
UNIT_TESTS += test_mac
UNIT_TESTS += test_oob
UNIT_TESTS += test_options
UNIT_TESTS += test_params
UNIT_TESTS += test_report
UNIT_TESTS += test_shm
UNIT_TESTS += test_sizes
UNIT_TESTS += test_split
UNIT_TESTS += test_stats
UNIT_TESTS += test_trial
UNIT_TESTS += test_verify
UNIT_TESTS += test_verify_faults
UNIT_TESTS += test_verify_fold
UNIT_TESTS += test_verify_matrix
UNIT_TESTS += test_zone
test_device_SRCS += src/tests/unit/device_kit.c
test_device_keep_SRCS += src/tests/unit/device_kit.c
test_device_streams_SRCS += src/tests/unit/device_kit.c
test_options_SRCS += src/tests/unit/capture.c
test_report_SRCS += src/tests/unit/capture.c src/tests/unit/scene.c

# Simulations: NAME stands for src/tests/sim/NAME.c, built like a unit test.
SIM_TESTS += test_programs
SIM_TESTS += test_schedules
test_programs_SRCS += src/tests/sim/broken.c src/tests/sim/shape.c
test_schedules_SRCS += src/tests/sim/shape.c src/tests/sim/world.c
test_boot_SRCS += src/tests/unit/boot_ranks.c
test_boot_strangers_SRCS += src/tests/unit/boot_ranks.c

# Tests of the core through nccl.h and chorus.h: NAME stands for src/tests/core/NAME.c, built like
# a unit test.
CORE_TESTS += test_agree
CORE_TESTS += test_arith
CORE_TESTS += test_choice
CORE_TESTS += test_handles
CORE_TESTS += test_counts
CORE_TESTS += test_endurance
CORE_TESTS += test_ends
CORE_TESTS += test_ends_across
CORE_TESTS += test_exchange
CORE_TESTS += test_family
CORE_TESTS += test_family_across
CORE_TESTS += test_grow
CORE_TESTS += test_join
CORE_TESTS += test_large
CORE_TESTS += test_life
CORE_TESTS += test_lsa
CORE_TESTS += test_nonblocking
CORE_TESTS += test_operators
CORE_TESTS += test_order
CORE_TESTS += test_p2p
CORE_TESTS += test_process
CORE_TESTS += test_process_faults
CORE_TESTS += test_reach
CORE_TESTS += test_reach_faults
CORE_TESTS += test_settings
CORE_TESTS += test_suspend
test_agree_SRCS += src/tests/core/kit.c src/tests/core/procs.c
test_arith_SRCS += src/tests/core/kit.c src/tests/core/numbers.c
test_choice_SRCS += src/tests/core/kit.c src/tests/core/procs.c
test_handles_SRCS += src/tests/core/kit.c
test_counts_SRCS += src/tests/core/kit.c src/tests/core/procs.c
test_endurance_SRCS += src/tests/core/kit.c
test_ends_SRCS += src/tests/core/kit.c src/tests/core/procs.c
test_ends_across_SRCS += src/tests/core/kit.c src/tests/core/procs.c
test_exchange_SRCS += src/tests/core/kit.c src/tests/core/procs.c
test_family_SRCS += src/tests/core/family.c src/tests/core/kit.c
test_family_across_SRCS += src/tests/core/family.c src/tests/core/kit.c
test_family_across_SRCS += src/tests/core/procs.c
test_grow_SRCS += src/tests/core/family.c src/tests/core/kit.c
test_join_SRCS += src/tests/core/kit.c
test_large_SRCS += src/tests/core/kit.c src/tests/core/procs.c
test_life_SRCS += src/tests/core/kit.c
test_lsa_SRCS += src/tests/core/kit.c src/tests/core/procs.c
test_nonblocking_SRCS += src/tests/core/kit.c
test_nonblocking_SRCS += src/tests/core/family.c src/tests/core/kit.c
test_operators_SRCS += src/tests/core/kit.c src/tests/core/numbers.c
test_operators_SRCS += src/tests/core/procs.c
test_order_SRCS += src/tests/core/kit.c
test_p2p_SRCS += src/tests/core/kit.c
test_process_SRCS += src/tests/core/kit.c src/tests/core/procs.c
test_process_faults_SRCS += src/tests/core/kit.c src/tests/core/procs.c
test_reach_SRCS += src/tests/core/kit.c src/tests/core/procs.c
test_reach_faults_SRCS += src/tests/core/kit.c src/tests/core/procs.c
test_settings_SRCS += src/tests/core/kit.c
test_suspend_SRCS += src/tests/core/kit.c src/tests/core/procs.c

# A GPU that is simulated, in place of the CUDA device, and the tests that run on it: FOLDER/NAME
# stands for src/tests/FOLDER/NAME.c, whose further sources are named where it is listed above or
# below, and builds build/sim/NAME. Run by src/tests/sim/test_gpu_*.sh.
SIM_GPU_SRCS += src/tests/sim/gpu_device.c
SIM_GPU_SRCS += src/tests/sim/gpu_foreign.c
SIM_GPU_SRCS += src/tests/sim/gpu_graph.c
SIM_GPU_SRCS += src/tests/sim/gpu_kernel.c
SIM_GPU_SRCS += src/tests/sim/gpu_memory.c
SIM_GPU_SRCS += src/tests/sim/gpu_queue.c
SIM_GPU_TESTS += core/test_agree
SIM_GPU_TESTS += core/test_endurance
SIM_GPU_TESTS += core/test_ends_across
SIM_GPU_TESTS += core/test_exchange
SIM_GPU_TESTS += core/test_family
SIM_GPU_TESTS += core/test_family_across
SIM_GPU_TESTS += core/test_grow
SIM_GPU_TESTS += core/test_join
SIM_GPU_TESTS += core/test_life
SIM_GPU_TESTS += core/test_nonblocking
SIM_GPU_TESTS += core/test_order
SIM_GPU_TESTS += core/test_p2p
SIM_GPU_TESTS += core/test_process
SIM_GPU_TESTS += core/test_process_faults
SIM_GPU_TESTS += core/test_settings
SIM_GPU_TESTS += core/test_suspend
SIM_GPU_TESTS += gpu/test_gates
SIM_GPU_TESTS += gpu/test_mixed
SIM_GPU_TESTS += gpu/test_random

# The long check, run by scripts/check-all: NAME stands for src/tests/all/NAME.c, built like a unit
# test.
CHECKS += check_all
check_all_SRCS += src/tests/all/trial.c
check_all_SRCS += src/tests/all/world.c
check_all_SRCS += src/tests/core/kit.c
check_all_SRCS += src/tests/core/numbers.c

# Tests of the fault points: NAME stands for src/tests/fault/NAME.c, built like a unit test. They
# have one case, skipped, unless FAULTS=1.
FAULT_TESTS += test_faults
test_faults_SRCS += src/tests/core/kit.c src/tests/core/procs.c

# Tests that need a GPU: NAME stands for src/tests/gpu/NAME.c and builds build/gpu/NAME, like a unit
# test; `make gpu-test` runs them. They are built without CUDA, too.
GPU_TESTS += test_bits
GPU_TESTS += test_caller
GPU_TESTS += test_gates
GPU_TESTS += test_mixed
GPU_TESTS += test_random
GPU_TESTS += test_spans
GPU_TEST_SRCS += src/tests/core/kit.c
GPU_TEST_SRCS += src/tests/core/procs.c
GPU_TEST_SRCS += src/tests/gpu/driver.c
test_bits_SRCS += src/tests/core/numbers.c
test_random_SRCS += src/tests/gpu/random_runs.c

# Figures of a machine with a GPU that no driver has, linked with libnccl.so.2 as a user's program.
GPU_BENCHES += bench_start

# Benchmarks: like a unit test, but built only by `make bench` and never run by `make test`.
UNIT_BENCHES += bench_device
UNIT_BENCHES += fit_costs

# Questions to CUDA and a GPU, one program, compiled by nvcc where it is found; `make probes`.
PROBE_SRCS += src/tests/probe/args.cu
PROBE_SRCS += src/tests/probe/blocks.cu
PROBE_SRCS += src/tests/probe/calls.cu
PROBE_SRCS += src/tests/probe/copies.cu
PROBE_SRCS += src/tests/probe/gates.cu
PROBE_SRCS += src/tests/probe/graphs.cu
PROBE_SRCS += src/tests/probe/identity.cu
PROBE_SRCS += src/tests/probe/ipc.cu
PROBE_SRCS += src/tests/probe/joins.cu
PROBE_SRCS += src/tests/probe/locks.cu
PROBE_SRCS += src/tests/probe/kit.cu
PROBE_SRCS += src/tests/probe/main.cu
PROBE_SRCS += src/tests/probe/memops.cu
PROBE_SRCS += src/tests/probe/queues.cu
PROBE_SRCS += src/tests/probe/threads.cu
PROBE_SRCS += src/tests/probe/words.cu

# Tests of the CUDA device's parts: NAME stands for src/tests/gpu/NAME.c and builds build/gpu/NAME
# by `make gpu` where nvcc is, like a unit test. test_foreign skips its cases where no GPU is.
CUDA_TESTS += test_foreign
CUDA_TESTS += test_staging
test_foreign_SRCS += src/tests/gpu/foreign_blocks.c
test_foreign_SRCS += src/tests/gpu/foreign_kernels.cu
test_foreign_SRCS += src/tests/gpu/foreign_kit.c
test_foreign_SRCS += src/tests/gpu/foreign_server.c
test_foreign_SRCS += src/tests/gpu/foreign_steps.c
test_foreign_SRCS += src/tests/gpu/foreign_storm.c
test_foreign_SRCS += src/tests/gpu/foreign_torture.c
test_staging_SRCS += src/tests/core/kit.c
test_staging_SRCS += src/tests/core/procs.c
test_staging_SRCS += src/tests/gpu/driver.c
test_staging_SRCS += src/tests/gpu/staging_memory.c
# Programs for a machine with a GPU: NAME stands for src/tests/gpu/NAME.cu and builds build/gpu/NAME
# by `make gpu` where nvcc is, with the sources that all share. Further sources: NAME_SRCS += …
GPU_PROGRAMS += bench_fold
GPU_PROGRAMS += bench_sched
GPU_PROGRAMS += test_fold
GPU_PROGRAMS += test_joins
GPU_PROGRAMS += test_sched
GPU_SRCS += src/tests/gpu/kit.cu
bench_fold_SRCS += src/tests/gpu/bench_bulk.cu
bench_fold_SRCS += src/tests/gpu/bench_op.cu
bench_fold_SRCS += src/tests/gpu/bench_sweep.cu
bench_sched_SRCS += src/tests/gpu/world.cu
test_fold_SRCS += src/tests/gpu/arena.cu
test_sched_SRCS += src/tests/gpu/arena.cu
test_sched_SRCS += src/tests/gpu/world.cu
test_sched_SRCS += src/tests/gpu/world_host.cu

# The two sides of `make bench`, the second compiled by mpicc, and the loop that times both.
BENCH_SRCS += src/tests/bench/bench_chorus.c
BENCH_LOOP += src/tests/bench/loop.c
BENCH_MPI  += src/tests/bench/bench_mpi.c

# Conformance tests: NAME stands for src/tests/conform/NAME.c and builds build/tests/test_NAME,
# linked with libnccl.so.2 as a program of a user is. Further sources: NAME_SRCS += …
CONFORM_TESTS += conform_api
conform_api_SRCS += src/tests/conform/config.c
conform_api_SRCS += src/tests/conform/device.c
conform_api_SRCS += src/tests/conform/disagree.c
conform_api_SRCS += src/tests/conform/exports.c
conform_api_SRCS += src/tests/conform/group.c
conform_api_SRCS += src/tests/conform/info.c
conform_api_SRCS += src/tests/conform/later.c
conform_api_SRCS += src/tests/conform/life.c
conform_api_SRCS += src/tests/conform/memory.c
conform_api_SRCS += src/tests/conform/params.c
conform_api_SRCS += src/tests/conform/simulate.c
conform_api_SRCS += src/tests/conform/require.c
conform_api_SRCS += src/tests/conform/table.c
conform_api_SRCS += src/tests/conform/world.c
conform_api_SRCS += src/tests/conform/wrong_device.c
conform_api_SRCS += src/tests/conform/wrong_family.c
conform_api_SRCS += src/tests/conform/wrong_life.c
conform_api_SRCS += src/tests/conform/wrong_ops.c

# Programs that open libnccl.so.2 by a path that they are given, linked with none: NAME stands for
# src/tests/conform/NAME.c and builds build/tests/NAME. Further sources: NAME_SRCS += …
LOADERS += differ
differ_SRCS += src/tests/conform/differ_list.c
differ_SRCS += src/tests/conform/differ_ops.c
differ_SRCS += src/tests/conform/differ_rows.c
differ_SRCS += src/tests/conform/differ_run.c

# Tests compiled by mpicc (where it is found): the path of the source; builds build/tests/NAME,
# linked with libnccl.so.2.
MPI_TESTS += src/tests/oracle/oracle_mpi.c

# Libraries for LD_PRELOAD: the path of the source; builds build/tests/NAME.so.
PRELOADS += src/tests/wrap/wrap_codes.c
PRELOADS += src/tests/wrap/wrap_faults.c

# Examples: NAME stands for examples/NAME.c and builds build/examples/NAME, linked with
# libnccl.so.2. An example named in MPI_EXAMPLES needs mpicc.
EXAMPLES += init_all
EXAMPLES += pthreads
MPI_EXAMPLES += mpi
