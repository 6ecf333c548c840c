/* cuda_gate.cu: the kernels that hold a member's stream while kernels of its executor run, in this
 * process or in another one. */
#include "kernel/cuda_join.h"
#include "kernel/kernel.h"

/* A thread a gate. All of them are up before any is waited for: a stream that takes part in several
 * operations at once holds none of them up for another. The releases publish the stream's earlier
 * work to the kernels that wait for the gates. */
extern "C" __global__ void __launch_bounds__(CCL_GATES_MAX)
    ccl_cuda_gate(const __grid_constant__ struct ccl_gates_args args)
{
    struct ccl_gate *gate = args.gates[threadIdx.x];
    if (args.parts & CCL_GATE_RAISE) store_release_gpu(&gate->raised, gate->gone + 1);
    if (args.parts & CCL_GATE_STAY) spin_while(&gate->gone, gate->raised - 1, args.abort_word);
}

/* By a word of the host, which a kernel, a stream or a processor sets. The acquire pairs with their
 * release. */
extern "C" __global__ void __launch_bounds__(1)
    ccl_cuda_await(const __grid_constant__ struct ccl_await_args args)
{
    while ((int32_t)(load_acquire_sys(args.word) - args.value) < 0) continue;
}
