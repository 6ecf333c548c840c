/* Background threads of the library. */
#ifndef CCL_BASE_THREAD_H
#define CCL_BASE_THREAD_H

#include <pthread.h>

/* Starts a thread that takes none of the application's signals, with a stack of 512 KiB. It is
 * detached when `joinable` is NULL. Returns 0 or an errno value. */
int ccl_thread_start(pthread_t *joinable, void *(*run)(void *), void *argument);

/* Names the calling thread, where NCCL_SET_THREAD_NAME=1 asks for it: at most 15 bytes, which
 * begin with "chorus-". */
void ccl_thread_name(const char *name);

#endif
