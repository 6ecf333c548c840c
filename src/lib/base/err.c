/* The last-error text of the process. One writer at a time under a lock; readers get a copy, so
 * a text can be read while another thread fails. */
#include "base/err.h"

#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t text_lock = PTHREAD_MUTEX_INITIALIZER;
static char last_text[CCL_ERR_TEXT_BYTES];

ncclResult_t ccl_err(ncclResult_t code, const char *format, ...)
{
    char text[CCL_ERR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);

    pthread_mutex_lock(&text_lock);
    memcpy(last_text, text, sizeof text);
    pthread_mutex_unlock(&text_lock);
    ccl_log(CCL_LOG_WARN, CCL_LOG_ALL, "%s", text);
    return code;
}

const char *ccl_err_last(void)
{
    static _Thread_local char copy[CCL_ERR_TEXT_BYTES];
    pthread_mutex_lock(&text_lock);
    memcpy(copy, last_text, sizeof copy);
    pthread_mutex_unlock(&text_lock);
    return copy;
}

const char *ccl_err_string(ncclResult_t code)
{
    switch (code) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError:
        return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError: return "internal error - please report this issue";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    case ncclTimeout: return "a peer was silent past the deadline";
    default: return "unknown result code";
    }
}
