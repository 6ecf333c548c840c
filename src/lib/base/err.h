/* Errors: the last-error text and the macros that hide a return.
 *
 * Every failure is born in one place by ccl_err(), which stores the text for ncclGetLastError,
 * logs it at WARN and hands the code back; from there the code travels up unchanged.
 */
#ifndef CCL_BASE_ERR_H
#define CCL_BASE_ERR_H

#include "nccl.h"

#define CCL_ERR_TEXT_BYTES 1024

/* Stores the text (cut at 1,023 bytes) as the process's last error, logs it, returns `code`.
 * Thread-safe, never blocks on anything but the short lock of the text. */
ncclResult_t ccl_err(ncclResult_t code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The last text, "" before any. The pointer is stable; the content is a per-thread copy that
 * the thread's next call overwrites. */
const char *ccl_err_last(void);

/* The constant text of a result code; never NULL. */
const char *ccl_err_string(ncclResult_t code);

/* Returns from the calling function when `x` fails. */
#define TRY(x)                                                                                     \
    do {                                                                                           \
        ncclResult_t try_code = (x);                                                               \
        if (try_code != ncclSuccess) return try_code;                                              \
    } while (0)

/* Stores the result of `x` in `rc` and jumps to `label` when it failed. */
#define TRY_GOTO(rc, x, label)                                                                     \
    do {                                                                                           \
        (rc) = (x);                                                                                \
        if ((rc) != ncclSuccess) goto label;                                                       \
    } while (0)

#endif
