# Shared by the shell tests of this folder, which source it: C tests on the simulated GPU.
export CHORUS_DEVICE=cuda NCCL_MULTI_RANK_GPU_ENABLE=1 TEST_DEFAULT_S="${TEST_DEFAULT_S:-60}"
. "$(dirname "$0")/../e2e/lib.sh"
. "$tests_dir/borrow.sh"
borrow_from=$BUILDDIR/sim
