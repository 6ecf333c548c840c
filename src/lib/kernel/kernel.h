/* kernel.h: the kernels that core launches on host devices (through device/device.h). Each is a
 * coroutine over its launch arguments.
 */
#ifndef CCL_KERNEL_KERNEL_H
#define CCL_KERNEL_KERNEL_H

#include "device/device.h"
#include "kernel/work.h"

/* Raises the gate, stays until it is let go or the communicator is aborted. */
struct ccl_gate_args {
    struct ccl_gate *gate;
    const uint32_t *abort_word;
    struct ccl_bell *bell;
};

enum ccl_run ccl_kernel_sched(void *args, uint32_t lane, struct ccl_cursor *cursor);
enum ccl_run ccl_kernel_pairs(void *args, uint32_t lane, struct ccl_cursor *cursor);
enum ccl_run ccl_kernel_gate(void *args, uint32_t lane, struct ccl_cursor *cursor);

#endif
