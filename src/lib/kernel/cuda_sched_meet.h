/* cuda_sched_meet.h: meetings of executors on the GPU: one that publishes everybody's buffers, and
 * one that waits until all are done. Of a channel's first warp; cuda_conn.h has the areas.
 */
#ifndef CCL_KERNEL_CUDA_SCHED_MEET_H
#define CCL_KERNEL_CUDA_SCHED_MEET_H

#include "kernel/cuda_sched_step.h"

/* OTHER: some buffer is out of reach, the second body runs. */
enum sched_met { SCHED_MET, SCHED_STOP, SCHED_OTHER };

SCHED_OP char *published_at(const ccl_work &work, char *area, uint32_t set, uint32_t slot)
{
    return area + (set * work.nslots + slot) * CCL_CUDA_SLOT_WORDS * CCL_CUDA_PAIR_BYTES;
}

SCHED_OP char *signature_at(const ccl_work &work, char *area, uint32_t set, uint32_t exec)
{
    return published_at(work, area, 2, 0) + (set * work.nexecs + exec) * CCL_CUDA_PAIR_BYTES;
}

SCHED_OP uint64_t *epoch_at(const ccl_work &work, char *area, uint32_t exec)
{
    return (uint64_t *)signature_at(work, area, 2, 0) + exec;
}

/* An address as others know it; NULL stays what it is. */
SCHED_OP uint64_t publish_address(const ccl_cuda_meet &meet, uintptr_t base, const void *address)
{
    uintptr_t place = (uintptr_t)address - base;
    if (address == NULL) return 0;
    return place < meet.shared_bytes ? place : CCL_OUT_OF_REACH;
}

/* Tells everybody this executor's buffers and its signature. A lane takes a slot of one of them.
 * The factor is read here: its address means nothing to others. */
template <class T>
SCHED_OP void publish_slots(const ccl_work &work, const ccl_cuda_meet &meet, uint32_t set,
                            uint32_t flag)
{
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < (uint32_t)work.nlocal * work.nexecs; i += 32) {
        uint32_t exec = i / work.nlocal, local = i % work.nlocal, at = work.first_local + local;
        ccl_slot slot = work.local[local];
        if (slot.scalar_at != NULL)
            slot.scalar = load_bytes((const char *)slot.scalar_at, elem_bytes<T>(work));
        char *to = published_at(work, meet.areas[exec], set, at);
        store_line(to, pack_line(publish_address(meet, meet.bases[at], slot.in), flag));
        store_line(to + 16, pack_line(publish_address(meet, meet.bases[at], slot.out), flag));
        store_line(to + 32, pack_line(slot.scalar, flag));
        if (local == 0)
            store_line(signature_at(work, meet.areas[exec], set, work.self),
                       pack_line(work.signature, flag));
    }
}

/* Waits for a pair that an executor publishes. */
SCHED_OP int read_pair(const ccl_work &work, sched_shared &sh, const char *at, uint32_t flag,
                       uint64_t *value)
{
    uint4 line;
    int is_there = spin_until(work, sh, CCL_WAIT_MEET, 0, [&] {
        line = load_line(at);
        return line_is_there(line, flag);
    });
    *value = unpack_line(line);
    return is_there;
}

SCHED_OP int read_signatures(const ccl_work &work, sched_shared &sh, char *area, uint32_t set,
                             uint32_t flag)
{
    int is_there = 1;
#pragma unroll 1
    for (uint32_t e = threadIdx.x; e < work.nexecs && is_there; e += 32) {
        const char *at = signature_at(work, area, set, e);
        uint4 line;
        is_there = spin_until(work, sh, CCL_WAIT_MEET, e, [&] {
            line = load_line(at);
            return line_is_there(line, flag);
        });
        if (!is_there || unpack_line(line) == work.signature) continue;
        disagree(work, sh, e);
        is_there = 0;
    }
    return __all_sync(~0u, is_there);
}

/* Turns what was published into addresses. */
SCHED_OP enum sched_met read_slots(const ccl_work &work, sched_shared &sh,
                                   const ccl_cuda_meet &meet, uint32_t set, uint32_t flag)
{
    int is_there = 1, is_outside = 0;
#pragma unroll 1
    for (uint32_t s = threadIdx.x; s < work.nslots && is_there; s += 32) {
        const char *at = published_at(work, meet.areas[work.self], set, s);
        uint64_t words[CCL_CUDA_SLOT_WORDS];
#pragma unroll
        for (int w = 0; w < CCL_CUDA_SLOT_WORDS; w++)
            is_there = is_there && read_pair(work, sh, at + 16 * w, flag, &words[w]);
        is_outside |= words[0] == CCL_OUT_OF_REACH || words[1] == CCL_OUT_OF_REACH;
        ccl_slot &slot = sh.table[s];
        slot.in = words[0] == 0 ? NULL : (const void *)(words[0] + meet.bases[s]);
        slot.out = words[1] == 0 ? NULL : (void *)(words[1] + meet.bases[s]);
        slot.scalar = words[2];
        slot.scalar_at = NULL;
    }
    if (!__all_sync(~0u, is_there)) return SCHED_STOP;
    return __any_sync(~0u, is_outside) && work.nbodies > 1 ? SCHED_OTHER : SCHED_MET;
}

/* The fences order what the streams did before with what others do after, and the reverse. */
template <class T>
SCHED_OP enum sched_met meet_publishing(const ccl_work &work, sched_shared &sh, ccl_cuda_meet &meet)
{
    uint32_t is_near = work.flags & CCL_WORK_NEAR, set = (uint32_t)meet.npublished & 1;
    uint32_t flag = ll_flag(meet.npublished + 1);
    fence_near(is_near);
    publish_slots<T>(work, meet, set, flag);
    if (!read_signatures(work, sh, meet.areas[work.self], set, flag)) return SCHED_STOP;
    enum sched_met met = read_slots(work, sh, meet, set, flag);
    fence_near(is_near);
    __syncwarp();
    if (threadIdx.x != 0) return met;
    meet.npublished++;
    if (met == SCHED_OTHER && blockIdx.x == 0) store_relaxed_sys(work.second, work.ticket + 1);
    return met;
}

/* Epochs only grow. The release publishes all stores of the operation, which the barrier has
 * ordered before. */
SCHED_OP enum sched_met meet_finishing(const ccl_work &work, sched_shared &sh, ccl_cuda_meet &meet)
{
    uint32_t is_near = work.flags & CCL_WORK_NEAR;
    uint64_t epoch = meet.epoch + 1;
    int is_there = 1;
#pragma unroll 1
    for (uint32_t e = threadIdx.x; e < work.nexecs; e += 32)
        store_release_near(epoch_at(work, meet.areas[e], work.self), epoch, is_near);
#pragma unroll 1
    for (uint32_t e = threadIdx.x; e < work.nexecs && is_there; e += 32) {
        const uint64_t *at = epoch_at(work, meet.areas[work.self], e);
        is_there = spin_until(work, sh, CCL_WAIT_MEET, e,
                              [&] { return load_acquire_near(at, is_near) >= epoch; });
    }
    is_there = __all_sync(~0u, is_there);
    if (threadIdx.x == 0) meet.epoch = epoch;
    return is_there ? SCHED_MET : SCHED_STOP;
}

template <class T>
SCHED_OP enum sched_met meet_all(const ccl_work &work, sched_shared &sh, int publishes)
{
    ccl_cuda_meet &meet = ((ccl_cuda_meet *)work.meets)[blockIdx.x];
    enum sched_met met =
        publishes ? meet_publishing<T>(work, sh, meet) : meet_finishing(work, sh, meet);
    __syncwarp();
    return met;
}

#endif
