/* wait.h: the one door of host-side waits on operations: works on pending kernels meanwhile.
 *
 * Whoever blocks for an operation does so here, so nothing waits without an end: `done` must
 * become true when the communicator fails. (Rendezvous waits are in boot/, before there are
 * operations; they look at deadline and abort flag themselves.)
 */
#ifndef CCL_CORE_WAIT_H
#define CCL_CORE_WAIT_H

/* Returns when done(context) is true. It is called often, on this thread, with no lock held. */
void ccl_wait(int (*done)(void *context), void *context);

#endif
