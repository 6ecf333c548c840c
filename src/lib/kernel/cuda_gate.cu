/* cuda_gate.cu: the kernel that holds a member's stream while its executor's kernel runs. */
#include "kernel/cuda_join.h"

/* The release publishes the stream's earlier work to the kernel that waits for the gate. */
extern "C" __global__ void __launch_bounds__(1)
    ccl_cuda_gate(struct ccl_gate *gate, const uint32_t *abort_word)
{
    uint32_t before = gate->gone;
    store_release_gpu(&gate->raised, before + 1);
    spin_while(&gate->gone, before, abort_word);
}
