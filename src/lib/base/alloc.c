/* Allocation for the control plane: zeroed, aligned to a cache line, with a fault point. */
#include "base/alloc.h"

#include "base/err.h"
#include "base/fault.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 64 };

ncclResult_t ccl_alloc(void **out, size_t n, size_t size_bytes)
{
    *out = NULL;
    if (size_bytes != 0 && n > (SIZE_MAX - LINE_BYTES) / size_bytes)
        return ccl_err(ncclSystemError, "allocation of %zu x %zu bytes overflows", n, size_bytes);
    size_t bytes = n * size_bytes;
    bytes = (bytes + LINE_BYTES) / LINE_BYTES * LINE_BYTES;
    void *memory = CCL_FAULT("alloc") ? NULL : aligned_alloc(LINE_BYTES, bytes);
    if (memory == NULL)
        return ccl_err(ncclSystemError, "out of host memory: allocation of %zu bytes failed",
                       bytes);
    memset(memory, 0, bytes);
    *out = memory;
    return ncclSuccess;
}

ncclResult_t ccl_grow(void **array, size_t used, size_t *room, size_t item_bytes)
{
    enum { FIRST_ROOM = 16 };
    if (used < *room) return ncclSuccess;
    void *grown;
    size_t grown_room = *room == 0 ? FIRST_ROOM : *room * 2;
    TRY(ccl_alloc(&grown, grown_room, item_bytes));
    if (used > 0) memcpy(grown, *array, used * item_bytes);
    ccl_free(*array);
    *array = grown;
    *room = grown_room;
    return ncclSuccess;
}

void ccl_free(void *memory)
{
    free(memory);
}
