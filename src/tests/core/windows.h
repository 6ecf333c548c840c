/* Ranks with a window each, for tests of one-sided operations: memory of their devices, filled and
 * compared through their streams. Local rank i is kit->ranks[i], in one process or in several. Used
 * by the rma tests; a rank is used by one thread at a time.
 */
#ifndef CORE_WINDOWS_H
#define CORE_WINDOWS_H

#include "core/kit.h"

struct windows {
    struct kit *kit;
    size_t bytes; /* of each window */
    struct {
        char *memory;
        ncclWindow_t win;
    } ranks[KIT_MAX_RANKS];
};

/* Symmetric windows of zeros, registered in one group. */
void windows_open(struct windows *windows, struct kit *kit, size_t bytes);
/* Not the kit, of which some communicators may be gone. */
void windows_close(struct windows *windows);

/* Writes bytes that a seed tells, and expects them. */
void windows_fill(const struct windows *windows, int i, size_t at, size_t bytes, uint32_t seed);
void windows_expect(const struct windows *windows, int i, size_t at, size_t bytes, uint32_t seed);
/* All bytes of the range are `byte`. */
void windows_set(const struct windows *windows, int i, size_t at, size_t bytes, int byte);
void windows_expect_byte(const struct windows *windows, int i, size_t at, size_t bytes, int byte);

/* Puts bytes of the own window into that of rank `peer`, on the rank's stream. */
struct windows_put {
    size_t from, to, bytes;
    int peer;
};
ncclResult_t windows_put(const struct windows *windows, int i, const struct windows_put *put);
/* Waits for so many signals of rank `peer`, on the rank's stream. */
ncclResult_t windows_wait(const struct windows *windows, int i, int peer, int count);
ncclResult_t windows_signal(const struct windows *windows, int i, int peer);

#endif
