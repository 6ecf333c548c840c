/* Starts background threads and names them. Called by all that have some. Signals stay the
 * application's: a handler must never run on a thread that the application does not know. */
#define _GNU_SOURCE
#include "base/thread.h"

#include "base/fault.h"
#include "base/param.h"

#include <errno.h>
#include <signal.h>

enum { STACK_BYTES = 512 * 1024 };

int ccl_thread_start(pthread_t *joinable, void *(*run)(void *), void *argument)
{
    pthread_attr_t attr;
    sigset_t all, before;
    pthread_t thread;
    if (CCL_FAULT("thread")) return EAGAIN;
    int code = pthread_attr_init(&attr);
    if (code != 0) return code;
    if (joinable == NULL) pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    code = pthread_create(&thread, &attr, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (code == 0 && joinable != NULL) *joinable = thread;
    return code;
}

void ccl_thread_name(const char *name)
{
    if (ccl_param_int(CCL_PARAM_SET_THREAD_NAME)) (void)pthread_setname_np(pthread_self(), name);
}
