/* cuda_gate.cu: the kernels that hold a stream: a member's while kernels of its executor run, in
 * this process or in another one, and a rank's that waits for signals. */
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

/* One of all kernels that raise this word, which are of one device: the word lies in memory of the
 * host, where a GPU's atomics are whole for that GPU only. Release publishes what the stream did
 * before, the copy of a put too. */
extern "C" __global__ void __launch_bounds__(1)
    ccl_cuda_raise(const __grid_constant__ struct ccl_raise_args args)
{
    __threadfence_system();
    add_release_sys(args.word, 1);
}

/* As try_take in run_rma.h. */
static __device__ __forceinline__ int try_take(const struct ccl_take *take)
{
    uint32_t taken = load_acquire_gpu(take->taken);
    if (load_acquire_sys(take->raised) - taken < take->count) return 0;
    return exchange_gpu(take->taken, taken, taken + take->count);
}

/* Each look at `raised` goes to memory of the host, and costs as much as one at the abort word. */
extern "C" __global__ void __launch_bounds__(1)
    ccl_cuda_takes(const __grid_constant__ struct ccl_takes_args args)
{
    enum { LOOKS_PER_NOTE = 16 };
#pragma unroll 1
    for (uint32_t i = 0; i < args.ntakes; i++) {
        const struct ccl_take *take = &args.takes[i];
#pragma unroll 1
        for (uint32_t looks = 1; !try_take(take); looks++) {
            if (looks % LOOKS_PER_NOTE != 0) continue;
            if (load_relaxed_sys(args.abort_word)) return;
            store_relaxed_sys(args.note, (uint64_t)CCL_WAIT_RAISE << 32 | take->peer);
        }
    }
    store_relaxed_sys(args.note, CCL_WAIT_NONE);
}
