/* cuda_sched.h: the interpreter of schedules on the GPU, for executors that have others to talk to;
 * instantiated by one .cu file per type. run_sched.h is the same for the host.
 *
 * A CTA is a channel. Its first warp goes through the steps: waits, finds the addresses of a step
 * (cuda_sched_step.h), meets others (cuda_sched_meet.h), and says afterwards what was filled and
 * drained; all warps move the data (cuda_sched_move.h). Two barriers a step. While one channel
 * waits, the others of the SM and of the link move.
 */
#ifndef CCL_KERNEL_CUDA_SCHED_H
#define CCL_KERNEL_CUDA_SCHED_H

#include "kernel/cuda_join.h"
#include "kernel/cuda_sched_meet.h"
#include "kernel/cuda_sched_move.h"
#include "kernel/cuda_sched_step.h"

/* Brings the connections and steps of a body to shared memory. */
SCHED_OP void open_body(const ccl_work &work, sched_shared &sh, uint32_t index)
{
    const ccl_body &body = work.body[index];
    const ccl_cuda_conn *const *conns =
        (const ccl_cuda_conn *const *)body.conns + blockIdx.x * body.nlinks;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < body.nlinks; i += 32) {
        sh.conns[i] = *conns[i];
        sh.conns[i].slot = (uint32_t)(sh.conns[i].seq % sh.conns[i].depth);
    }
    uint32_t nsteps = body.nsteps < SCHED_STEPS ? body.nsteps : SCHED_STEPS;
    const uint32_t *from = (const uint32_t *)body.steps;
    uint32_t *to = (uint32_t *)sh.steps;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < nsteps * (sizeof(ccl_step) / 4); i += 32) to[i] = from[i];
    __syncwarp();
}

SCHED_OP void close_body(const ccl_work &work, const sched_shared &sh, uint32_t index)
{
    const ccl_body &body = work.body[index];
    ccl_cuda_conn *const *conns = (ccl_cuda_conn *const *)body.conns + blockIdx.x * body.nlinks;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < body.nlinks; i += 32) {
        conns[i]->seq = sh.conns[i].seq;
        conns[i]->credit_seen = sh.conns[i].credit_seen;
    }
}

/* Goes on to the next step that moves something and prepares it; 0 when there is none, or when the
 * communicator was aborted. First warp. */
template <class T> SCHED_OP int prepare_move(const ccl_work &work, sched_shared &sh, sched_at &at)
{
#pragma unroll 1
    for (; !sh.stops; at.step++) {
        const ccl_body &body = work.body[at.body];
        if (at.step == body.nsteps) {
            at.step = 0;
            at.round++;
        }
        if (body.nsteps == 0 || at.round >= body.nrounds + body.lag) return 0;
        const ccl_step &step = find_step(body, sh, at.step);
        if (step.kind == CCL_MEET) {
            enum sched_met met = meet_all<T>(work, sh, step.flags & CCL_STEP_PUBLISH);
            if (met == SCHED_STOP) return 0;
            if (met == SCHED_MET) continue;
            at.body = 1;
            at.step = ~0u; /* the first one is next */
            open_body(work, sh, 1);
            continue;
        }
        sched_step here = {work, body, step, find_piece(&work, &body, &step, blockIdx.x, at.round)};
        if (here.piece.elems == 0) continue;
        if (!wait_slots(here, sh)) return 0;
        resolve_step<T>(here, sh);
        return 1;
    }
    return 0;
}

/* The work is read from shared memory: what the compiler makes of it once it would keep in
 * registers through all steps. */
SCHED_OP void open_work(const ccl_work &args, sched_shared &sh)
{
    uint32_t bytes = (uint32_t)offsetof(ccl_work, local) + args.nlocal * sizeof(ccl_slot);
    const uint32_t *from = (const uint32_t *)&args;
    uint32_t *to = (uint32_t *)&sh.work;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < bytes / 4; i += blockDim.x) to[i] = from[i];
    if (threadIdx.x == 0) sh.stops = sh.has_note = 0;
    __syncthreads();
}

template <class T> SCHED_OP void run_channel(sched_shared &sh)
{
    const ccl_work &work = sh.work;
    sched_at at = {0, 0, 0};
    int is_first = threadIdx.x < 32;
    if (is_first) open_body(work, sh, 0);
#pragma unroll 1
    for (;;) {
        if (is_first) {
            int goes_on = prepare_move<T>(work, sh, at);
            if (threadIdx.x == 0) sh.goes_on = goes_on;
        }
        __syncthreads();
        if (!sh.goes_on) break;
        move_step<T>(work, sh);
        __syncthreads();
        if (!is_first) continue;
        const ccl_body &body = work.body[at.body];
        finish_step(work, body, find_step(body, sh, at.step++), sh);
    }
    if (!is_first) return;
    close_body(work, sh, at.body);
    if (threadIdx.x == 0 && sh.has_note) store_relaxed_sys(work.note, 0);
}

template <class T> SCHED_OP void run_sched(const ccl_work &args)
{
    __shared__ sched_shared shared;
    if (args.ngates > 0 && !join_wait(args.gates, args.ngates, args.abort_word)) return;
    open_work(args, shared);
    run_channel<T>(shared);
    if (join_tells(args)) join_leave(args);
}

#undef SCHED_OP

#ifdef __CUDA_ARCH__
enum { CCL_SCHED_ARCH = __CUDA_ARCH__ };
#else
enum { CCL_SCHED_ARCH = 0 };
#endif

#define CCL_SCHED_KERNEL(name, T)                                                                  \
    extern "C" __global__ void __launch_bounds__(CCL_SCHED_MAX_THREADS, 2)                         \
        ccl_cuda_sched_##name(const __grid_constant__ struct ccl_work args)                        \
    {                                                                                              \
        if constexpr (CCL_SCHED_ARCH >= 10 * T::SM) run_sched<T>(args);                            \
    }

#endif
