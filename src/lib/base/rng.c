/* Random bytes from getrandom(2). Called by boot when it makes ids and nonces. There is no
 * fallback: a weak secret is worse than an error. */
#define _GNU_SOURCE
#include "base/rng.h"

#include "base/err.h"
#include "base/fault.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>

ncclResult_t ccl_rng_fill(void *out, size_t size_bytes)
{
    uint8_t *bytes = out;
    size_t have = 0;
    while (have < size_bytes) {
        ssize_t got = getrandom(bytes + have, size_bytes - have, 0);
        if (CCL_FAULT("boot-getrandom")) {
            got = -1;
            errno = ENOSYS;
        }
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return ccl_err(ncclSystemError, "getrandom of %zu bytes: %s", size_bytes,
                           strerror(errno));
        have += (size_t)got;
    }
    return ncclSuccess;
}
