/* Background threads of the library. */
#ifndef CCL_BASE_THREAD_H
#define CCL_BASE_THREAD_H

#include <pthread.h>

/* Starts a thread that takes none of the application's signals, with a stack of 512 KiB. It is
 * detached when `joinable` is NULL. Returns 0 or an errno value. */
int ccl_thread_start(pthread_t *joinable, void *(*run)(void *), void *argument);

#endif
