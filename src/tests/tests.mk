# Sources of the drivers and of the tests, one a line, sorted. What is not listed is not built.

# Drivers: NAME stands for src/tests/NAME.c and builds build/NAME_perf.
DRIVERS +=

# The harness: part of every driver, and of the unit tests that need it.
HARNESS_SRCS +=

# The test framework: part of every unit and conformance test.
TEST_SRCS += src/tests/unit/child.c
TEST_SRCS += src/tests/unit/leftover.c
TEST_SRCS += src/tests/unit/lib_hooks.c
TEST_SRCS += src/tests/unit/test.c

# Unit tests: NAME stands for src/tests/unit/NAME.c and builds build/tests/NAME, linked with the
# static library (internals are reachable), the harness and the framework.
# Further sources of one test: NAME_SRCS += src/tests/unit/more.c
UNIT_TESTS += test_boot
UNIT_TESTS += test_boot_mesh
UNIT_TESTS += test_boot_strangers
UNIT_TESTS += test_boot_wire
UNIT_TESTS += test_framework
UNIT_TESTS += test_mac
UNIT_TESTS += test_shm
test_boot_SRCS += src/tests/unit/boot_ranks.c
test_boot_strangers_SRCS += src/tests/unit/boot_ranks.c

# Benchmarks: like a unit test, but built only by `make bench` and never run by `make test`.
UNIT_BENCHES +=

# Conformance tests: NAME stands for src/tests/conform/NAME.c and builds build/tests/test_NAME,
# linked with libnccl.so.2 as a program of a user is. Further sources: NAME_SRCS += …
CONFORM_TESTS +=

# Tests compiled by mpicc (where it is found): the path of the source; builds build/tests/NAME,
# linked with libnccl.so.2.
MPI_TESTS +=

# Libraries for LD_PRELOAD: the path of the source; builds build/tests/NAME.so.
PRELOADS +=

# Examples: NAME stands for examples/NAME.c and builds build/examples/NAME, linked with
# libnccl.so.2. An example named in MPI_EXAMPLES needs mpicc.
EXAMPLES +=
MPI_EXAMPLES +=
