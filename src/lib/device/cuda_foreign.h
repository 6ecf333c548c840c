/* Buffers of other processes on GPUs. The owner exports a buffer and passes a reference; the
 * process that runs the kernel imports it, which maps the memory there.
 *
 * An exporter and an importer are the two ends of a Unix stream socket. References travel by other
 * ways (shared memory), any time after ccl_export_buffer has returned: whatever the importer needs
 * was sent by then, so that it never asks back and the owner may do as it likes meanwhile.
 *
 * Identity is never an address. Allocations are known by the process and its BUFFER_ID, which is
 * new at each allocation. A span is a row of whole allocations that lie side by side in the owner
 * (mostly one; virtual memory is many chunks) and that never changes: memory that was freed and
 * allocated again is another span. Spans are numbered from 1 on, per process.
 *
 * The owner may free its memory, or die, while it is mapped elsewhere: it stays readable, and goes
 * back to the device when the mapping is closed (results/2026-11-30-h200/probes.md).
 *
 * All functions may be called by any thread. None leaves a mark in a capture of the thread.
 */
#ifndef CCL_DEVICE_CUDA_FOREIGN_H
#define CCL_DEVICE_CUDA_FOREIGN_H

#include "base/sock.h"

#include <stddef.h>
#include <stdint.h>

/* Where a buffer lies. span 0: in memory that cannot be exported, and has to be staged. */
struct ccl_foreign_ref {
    uint64_t span, offset;
};

/* ---- the owner's end ---- */

struct ccl_exporter;

/* `socket` stays the caller's, and is open until the exporter is closed. */
ncclResult_t ccl_export_open(int socket, struct ccl_exporter **out);
/* NULL is fine. What the importer has of this process is its own to close. */
void ccl_export_close(struct ccl_exporter *exporter);

/* Finds or makes the span of a buffer and sees to it that the importer knows it. The device of the
 * memory is current. One query of the driver for each allocation that the buffer touches, unless
 * the span is new; then its handles are made, which takes a millisecond a chunk, and sent, which
 * waits where the socket is full (some hundred chunks unread).
 *
 * ncclInvalidArgument: the buffer runs past its allocation. After another error this exporter is
 * of no more use. No bytes: span 0. */
ncclResult_t ccl_export_buffer(struct ccl_exporter *exporter, const void *address, size_t bytes,
                               const struct ccl_sock_wait *wait, struct ccl_foreign_ref *out);

/* Tells the importer of the spans whose memory has been freed, so that it can give it up. To be
 * called now and then; what would not fit the socket is told next time. */
ncclResult_t ccl_export_sweep(struct ccl_exporter *exporter);

/* ---- buffers for what cannot be exported ---- */

/* A buffer that can, of the device that was current when it was taken. */
struct ccl_staging {
    char *memory;
    size_t bytes;
};

/* Whether streams can copy from and to this memory by themselves: CUDA knows it. */
int ccl_staging_can_stand_for(const void *address);
/* One whose latest use is over, mostly without a call that waits for anything. */
ncclResult_t ccl_staging_take(size_t bytes, struct ccl_staging **out);
/* A use ends where the stream is now; and a stream waits for the end of the latest use. */
ncclResult_t ccl_staging_mark(struct ccl_staging *staging, cudaStream_t stream);
ncclResult_t ccl_staging_follow(struct ccl_staging *staging, cudaStream_t stream);
/* Gives it back, its latest use may go on. NULL is fine. */
void ccl_staging_put(struct ccl_staging *staging);

/* ---- the end of who runs the kernel ---- */

struct ccl_importer;
struct ccl_region; /* a mapped span; one for each span and device of the process */

struct ccl_imported {
    char *address;
    struct ccl_region *region;
};

/* Maps to the current device. */
ncclResult_t ccl_import_open(int socket, struct ccl_importer **out);
/* NULL is fine. What nobody uses any more is closed by the next ccl_import_collect. */
void ccl_import_close(struct ccl_importer *importer);

/* The address of a buffer here, mapped at first use. It is pinned until ccl_import_unpin: while a
 * kernel uses it, or while a graph that does exists. `wait` is for what is still on its way. After
 * an error this importer is of no more use. */
ncclResult_t ccl_import_buffer(struct ccl_importer *importer, const struct ccl_foreign_ref *ref,
                               size_t bytes, const struct ccl_sock_wait *wait,
                               struct ccl_imported *out);
/* Takes no lock and makes no CUDA call; NULL is fine. */
void ccl_import_unpin(struct ccl_region *region);

/* Reads what the importer was sent, so that its exporter can send more. */
ncclResult_t ccl_import_read(struct ccl_importer *importer);
/* Reads what the importer (NULL: none) was sent, and unmaps what is not pinned and was freed by
 * its owner, or lost its last importer, or is beyond the limits and was not used for the longest
 * time. May take milliseconds, and wait for all that the device does. */
ncclResult_t ccl_import_collect(struct ccl_importer *importer);

/* How much may stay mapped in the process: 1,024 regions and 256 GiB unless set. */
struct ccl_import_limits {
    size_t regions, bytes;
};
void ccl_import_limit(struct ccl_import_limits limits);

/* What is mapped, how many allocations are held open, and in how many blocks of cudaMalloc the
 * mapped ones lie, for tests and the status. */
struct ccl_import_usage {
    size_t regions, bytes, allocations, blocks;
};
struct ccl_import_usage ccl_import_usage(void);

#endif
