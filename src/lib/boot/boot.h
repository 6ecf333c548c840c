/* Bootstrap: how the ranks of a communicator that is being made find each other.
 *
 * A unique id holds the address of a root thread and a secret. Each rank opens one session to
 * the root, which relays all-gathers among the n ranks until all have closed. The root drops
 * strangers, names the ranks that are missing when a deadline passes, and tells everyone when a
 * rank's connection breaks. Called by core/comm_init.c; one session is used by one thread.
 */
#ifndef CCL_BOOT_BOOT_H
#define CCL_BOOT_BOOT_H

#include "nccl.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct ccl_boot;

/* Makes an id and starts its root thread in this process (unless NCCL_COMM_ID names a fixed
 * host:port, in which case rank 0's ccl_boot_open starts it there). An id serves one session. The
 * thread ends by itself: when all ranks have left, when the session failed and everyone was told,
 * when no rank came within CHORUS_INIT_TIMEOUT_MS, or at process exit, which it never delays.
 * ncclInvalidUsage when no network interface is usable or NCCL_COMM_ID cannot be understood,
 * ncclSystemError when the system refuses a socket or thread. Does not block, except for the
 * lookup of a host name in NCCL_COMM_ID. Any thread. */
ncclResult_t ccl_boot_make_id(ncclUniqueId *id);

/* The same for ranks that know each other already: never at the address of NCCL_COMM_ID. */
ncclResult_t ccl_boot_make_own_id(ncclUniqueId *id);

/* Says that no rank will use the id any more, whose session has failed or never began: its root
 * ends now and not at the deadline. Does not wait for that. */
void ccl_boot_drop_id(const ncclUniqueId *id);

struct ccl_boot_args {
    ncclUniqueId id;
    int nranks, rank;
    uint64_t build; /* hash of what the caller sends through all-gathers; equal on all ranks */
    const _Atomic uint32_t *abort_word; /* non-zero ends every wait with ncclInternalError */
};

/* Joins the session. Blocks until all ranks have joined, the deadline
 * (CHORUS_INIT_TIMEOUT_MS: ncclTimeout naming the missing ranks), abort, or an error.
 * ncclInvalidUsage with both values when ranks differ in nranks, claim the same rank, or run
 * another build of the library. ncclRemoteError naming a rank that died, or when nobody listens
 * at the id's address any more. ncclInvalidArgument for a damaged id or a rank out of range. */
ncclResult_t ccl_boot_open(const struct ccl_boot_args *args, struct ccl_boot **out);

/* Every rank contributes bytes_each (equal on all, at most 64 KiB) and gets all in rank order.
 * Blocks like open. Fails on all ranks alike: ncclInvalidUsage when bytes_each differ,
 * ncclRemoteError when a rank died or left before this round, ncclTimeout naming the ranks that
 * have not come to it. bytes_each 0 is a barrier. */
ncclResult_t ccl_boot_allgather(struct ccl_boot *boot, const void *mine, void *all,
                                size_t bytes_each);

/* ncclSuccess while no failure of the session is known here, else the failure. Never waits; not
 * while an all-gather is in progress on another thread. */
ncclResult_t ccl_boot_health(struct ccl_boot *boot);
/* Readable in poll(2) when ccl_boot_health has news. Owned by the session. */
int ccl_boot_fd(const struct ccl_boot *boot);

/* Makes the session fail on all other ranks with `code` and a text that names this rank; only
 * ccl_boot_close may follow. Blocks a second at most. */
void ccl_boot_fail(struct ccl_boot *boot, ncclResult_t code, const char *text);

/* Ends the session; NULL is fine. Closing before all others are done is an orderly leave, not a
 * death. */
void ccl_boot_close(struct ccl_boot *boot);

/* 16 bytes that only holders of the id know, equal on all ranks: keys the mesh. */
void ccl_boot_secret(const struct ccl_boot *boot, uint8_t secret[16]);

/* Ends the roots of this process that nobody has joined, and waits (10 s at most) until all root
 * threads of this process whose session is over have ended with all they held. For leak checks:
 * an id that was made and not used yet is of no use afterwards. */
void ccl_boot_quiesce(void);

#endif
