/* windows.c: memory and windows of the ranks of a kit. */
#include "core/windows.h"

#include <stdlib.h>
#include <string.h>

static struct kit_rank *rank_of(const struct windows *windows, int i)
{
    return &windows->kit->ranks[i];
}

static void set_device(const struct windows *windows, int i)
{
    CHECK_OK(chorus_devices()->set(rank_of(windows, i)->device));
}

void windows_open(struct windows *windows, struct kit *kit, size_t bytes)
{
    *windows = (struct windows){.kit = kit, .bytes = bytes};
    for (int i = 0; i < kit->nranks; i++) {
        set_device(windows, i);
        CHECK_OK(ncclMemAlloc((void **)&windows->ranks[i].memory, bytes));
        windows_set(windows, i, 0, bytes, 0);
    }
    set_device(windows, 0);
    CHECK_OK(ncclGroupStart());
    for (int i = 0; i < kit->nranks; i++)
        CHECK_OK(ncclCommWindowRegister(kit->ranks[i].comm, windows->ranks[i].memory, bytes,
                                        &windows->ranks[i].win, NCCL_WIN_COLL_SYMMETRIC));
    CHECK_OK(ncclGroupEnd());
    for (int i = 0; i < kit->nranks; i++) CHECK(windows->ranks[i].win != NULL);
}

void windows_close(struct windows *windows)
{
    for (int i = 0; i < windows->kit->nranks; i++) {
        ncclComm_t comm = rank_of(windows, i)->comm;
        if (comm != NULL) CHECK_OK(ncclCommWindowDeregister(comm, windows->ranks[i].win));
        CHECK_OK(ncclMemFree(windows->ranks[i].memory));
    }
}

/* ---- contents ---- */

static void copy(const struct windows *windows, int i, void *to, const void *from, size_t bytes)
{
    struct kit_rank *rank = rank_of(windows, i);
    if (bytes > 0) CHECK_OK(chorus_devices()->copy(to, from, bytes, rank->stream));
    kit_sync(rank);
}

static char *make_bytes(size_t bytes, uint32_t seed)
{
    char *content = malloc(bytes + 1);
    CHECK(content != NULL);
    uint32_t state = seed, word = 0;
    for (size_t b = 0; b < bytes; b++) {
        if (b % 4 == 0) word = kit_random(&state);
        content[b] = (char)(word >> b % 4 * 8);
    }
    return content;
}

static void expect_bytes(const struct windows *windows, int i, size_t at, const char *wanted,
                         size_t bytes)
{
    char *got = malloc(bytes + 1);
    CHECK(got != NULL);
    copy(windows, i, got, windows->ranks[i].memory + at, bytes);
    for (size_t b = 0; b < bytes; b++)
        if (got[b] != wanted[b])
            FAIL("window of rank %d: byte %zu of %zu at %zu is 0x%02x, not 0x%02x",
                 rank_of(windows, i)->rank, b, bytes, at, (uint8_t)got[b], (uint8_t)wanted[b]);
    free(got);
}

void windows_fill(const struct windows *windows, int i, size_t at, size_t bytes, uint32_t seed)
{
    char *content = make_bytes(bytes, seed);
    copy(windows, i, windows->ranks[i].memory + at, content, bytes);
    free(content);
}

void windows_expect(const struct windows *windows, int i, size_t at, size_t bytes, uint32_t seed)
{
    char *content = make_bytes(bytes, seed);
    expect_bytes(windows, i, at, content, bytes);
    free(content);
}

void windows_set(const struct windows *windows, int i, size_t at, size_t bytes, int byte)
{
    char *memory = windows->ranks[i].memory + at;
    CHECK_OK(chorus_devices()->fill(memory, byte, bytes, rank_of(windows, i)->stream));
    kit_sync(rank_of(windows, i));
}

void windows_expect_byte(const struct windows *windows, int i, size_t at, size_t bytes, int byte)
{
    char *content = malloc(bytes + 1);
    CHECK(content != NULL);
    memset(content, byte, bytes);
    expect_bytes(windows, i, at, content, bytes);
    free(content);
}

/* ---- operations ---- */

ncclResult_t windows_put(const struct windows *windows, int i, const struct windows_put *put)
{
    const struct kit_rank *rank = rank_of(windows, i);
    return ncclPutSignal(windows->ranks[i].memory + put->from, put->bytes, ncclInt8, put->peer,
                         windows->ranks[i].win, put->to, 0, 0, 0, rank->comm, rank->stream);
}

ncclResult_t windows_wait(const struct windows *windows, int i, int peer, int count)
{
    const struct kit_rank *rank = rank_of(windows, i);
    ncclWaitSignalDesc_t desc = {.opCnt = count, .peer = peer};
    return ncclWaitSignal(1, &desc, rank->comm, rank->stream);
}

ncclResult_t windows_signal(const struct windows *windows, int i, int peer)
{
    const struct kit_rank *rank = rank_of(windows, i);
    return ncclSignal(peer, 0, 0, 0, rank->comm, rank->stream);
}
