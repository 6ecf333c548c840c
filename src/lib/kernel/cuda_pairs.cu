/* cuda_pairs.cu: the kernel of sends and receives between executors on GPUs; cuda_conn.h has its
 * arguments. run_pairs.h is the same for the host.
 *
 * A row of halves over the same ends, cut into lanes, is a task each. A CTA has some of them: the
 * lanes of its first warp look at them all, one that can go on is chosen, and all warps move the
 * bytes of one slot. So no message waits for another, but those of one connection for each other.
 */
#include "kernel/cuda_sched_move.h"
#include "kernel/cuda_sched_step.h"
#include "kernel/cuda_words.h"

/* One lane of a row. */
struct pairs_task {
    struct ccl_cuda_conn end; /* a copy; numbers go back when the task is done */
    char *at;
    uint64_t left; /* bytes of this half and lane */
    uint32_t half; /* in work */
    uint16_t lane;
    uint8_t is_send, is_done;
};

struct pairs_shared {
    sched_shared sched; /* as in the interpreter; its work holds the words of the communicator */
    pairs_task tasks[CCL_CUDA_TASKS];
    uint32_t ntasks, ndone, chosen, slot_bytes;
};

SCHED_OP const ccl_cuda_half *list_of(const ccl_cuda_pairs &args)
{
    return args.list != NULL ? args.list : args.halves;
}

/* ---- tasks ---- */

/* The part of the half in work that goes over the task's lane; 0: none does. A message without
 * bytes takes a slot of the first lane all the same. */
SCHED_OP int find_part(const ccl_cuda_half &half, pairs_task &task, uint32_t nlanes)
{
    uint32_t used = ccl_cuda_lanes(half.bytes, nlanes);
    uint64_t each = ((half.bytes + used - 1) / used + 127) & ~(uint64_t)127;
    uint64_t start = each * task.lane;
    task.at = half.buffer + start;
    task.left = 0;
    if (task.lane == 0 && half.bytes == 0) return 1;
    if (task.lane >= used || start >= half.bytes) return 0;
    task.left = half.bytes - start < each ? half.bytes - start : each;
    return 1;
}

/* To the next half of the row that has a part for the task, from `half` on: the one that the task
 * stands at, or the one behind it. Else the task is done. */
SCHED_OP void go_on(const ccl_cuda_pairs &args, pairs_shared &sh, pairs_task &task, uint32_t half)
{
    const ccl_cuda_half *list = list_of(args);
#pragma unroll 1
    for (; half < args.nhalves && (half == task.half || list[half].is_next); half++) {
        task.half = half;
        if (find_part(list[half], task, args.nlanes)) return;
    }
    task.is_done = 1;
    ccl_cuda_conn *end = list[task.half].ends + task.lane;
    end->seq = task.end.seq;
    end->credit_seen = task.end.credit_seen;
    atomicAdd(&sh.ndone, 1u);
}

/* The tasks of this CTA: those whose number leaves its own as a remainder. First warp. */
SCHED_OP void open_tasks(const ccl_cuda_pairs &args, pairs_shared &sh)
{
    const ccl_cuda_half *list = list_of(args);
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < args.nhalves; i += 32) {
        if (list[i].is_next) continue;
#pragma unroll 1
        for (uint32_t lane = 0; lane < args.nlanes; lane++) {
            uint32_t number = lane * args.nruns + list[i].run;
            if (number % args.nctas != blockIdx.x) continue;
            pairs_task &task = sh.tasks[number / args.nctas];
            task.end = list[i].ends[lane];
            task.end.slot = (uint32_t)(task.end.seq % task.end.depth);
            task.lane = (uint16_t)lane;
            task.is_send = list[i].is_send;
            task.is_done = 0;
            task.half = i;
            go_on(args, sh, task, i);
        }
    }
    __syncwarp();
}

/* A slot is free, or filled. Acquires pair with the stores of finish_move. */
SCHED_OP int can_move(pairs_task &task)
{
    ccl_cuda_conn &end = task.end;
    if (!task.is_send) return load_acquire_near(&end.flags->ready, 0) > end.seq;
    if (end.seq - end.credit_seen < end.depth) return 1;
    end.credit_seen = load_acquire_near(end.credit, 0);
    return end.seq - end.credit_seen < end.depth;
}

/* ---- one slot ---- */

SCHED_OP uint32_t slot_part(const pairs_shared &sh, const pairs_task &task)
{
    return task.left < sh.slot_bytes ? (uint32_t)task.left : sh.slot_bytes;
}

/* The message is not the one that is received. */
SCHED_OP void say_mismatch(const ccl_cuda_pairs &args, pairs_shared &sh, const ccl_cuda_half &half,
                           uint64_t sent)
{
    store_relaxed_sys(&args.mismatch[CCL_MISMATCH_FROM], half.peer);
    store_relaxed_sys(&args.mismatch[CCL_MISMATCH_TO], half.rank);
    store_relaxed_sys(&args.mismatch[CCL_MISMATCH_SENT], sent);
    store_relaxed_sys(&args.mismatch[CCL_MISMATCH_WANTED], half.bytes);
    __threadfence_system(); /* ahead of the error word */
    disagree(sh.sched.work, sh.sched, half.peer);
}

/* Tells the warps what to move. By the lane that found the task. A slot carries the bytes of the
 * whole message, so that both ends see when they do not mean the same. */
SCHED_OP void prepare_move(const ccl_cuda_pairs &args, pairs_shared &sh, uint32_t index)
{
    pairs_task &task = sh.tasks[index];
    sched_move &move = sh.sched.move;
    const ccl_cuda_half &half = list_of(args)[task.half];
    char *slot = task.end.ring + (uint64_t)task.end.slot * task.end.stride;
    uint64_t *sign = &task.end.flags->signs[task.end.slot];
    if (task.is_send)
        *sign = half.bytes;
    else if (*(volatile uint64_t *)sign != half.bytes)
        say_mismatch(args, sh, half, *(volatile uint64_t *)sign);
    char *from = task.is_send ? task.at : slot, *to = task.is_send ? slot : task.at;
    move.bytes = slot_part(sh, task);
    move.from[0] = {from, 0, 0, 0};
    move.to[0] = {to, 0, 0, 0};
    uint32_t low = (uint32_t)(uintptr_t)from | (uint32_t)(uintptr_t)to;
    move.is_aligned = low % 16 == 0;
    low |= (uint32_t)move.bytes | 4;
    move.grain = low & (~low + 1);
    sh.chosen = index;
}

/* Looks at all tasks until one can go on; 0: all are done, or the communicator failed. `turn` is
 * where to look first, so that none is always the last. First warp. */
SCHED_OP int choose_task(const ccl_cuda_pairs &args, pairs_shared &sh, uint32_t turn)
{
#pragma unroll 1
    for (uint32_t spins = 1; sh.ndone < sh.ntasks && !sh.sched.stops; spins++) {
        uint32_t mine = ~0u, waits = ~0u;
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < sh.ntasks; i += 32) {
            if (sh.tasks[i].is_done) continue;
            if (can_move(sh.tasks[i]))
                mine = i;
            else
                waits = i;
            if (mine != ~0u) break;
        }
        uint32_t found = __ballot_sync(~0u, mine != ~0u);
        if (found != 0) {
            /* The first lane from `turn` on. */
            uint32_t from = found & ~0u << turn, lane = __ffs(from != 0 ? from : found) - 1;
            if (threadIdx.x == lane) prepare_move(args, sh, mine);
            __syncwarp();
            return !sh.sched.stops;
        }
        int ends = 0;
        if (spins % CCL_SPINS_PER_LOOK == 0 && waits != ~0u) {
            const pairs_task &task = sh.tasks[waits];
            ends = look_up(sh.sched.work, sh.sched, task.is_send ? CCL_WAIT_CREDIT : CCL_WAIT_DATA,
                           task.end.peer);
        }
        if (__any_sync(~0u, ends)) return 0;
    }
    return 0;
}

/* What was moved is said to the other end. The fence publishes what all warps have written, which
 * the barrier has ordered before, and keeps their reads ahead of the credit. */
SCHED_OP void finish_move(const ccl_cuda_pairs &args, pairs_shared &sh)
{
    pairs_task &task = sh.tasks[sh.chosen];
    uint32_t moved = slot_part(sh, task);
    __threadfence_system();
    next_slot(task.end);
    store_relaxed_sys(task.is_send ? &task.end.flags->ready : task.end.credit, task.end.seq);
    task.at += moved;
    task.left -= moved;
    if (task.left == 0) go_on(args, sh, task, task.half + 1);
}

/* ---- the kernel ---- */

SCHED_OP void open_shared(const ccl_cuda_pairs &args, pairs_shared &sh)
{
    uint32_t all = args.nruns * args.nlanes;
    if (threadIdx.x == 0) {
        ccl_work &work = sh.sched.work;
        sched_move &move = sh.sched.move;
        work.abort_word = args.abort_word;
        work.error = args.error;
        work.note = args.note;
        work.divisor = 1;
        work.redop = 0;
        move.nsources = move.ntargets = 1;
        move.in_links = move.out_links = move.is_map = move.divides = 0;
        move.proto = CCL_PROTO_SIMPLE;
        sh.sched.stops = sh.sched.has_note = sh.ndone = 0;
        sh.slot_bytes = args.slot_bytes;
        sh.ntasks = blockIdx.x < all ? (all - blockIdx.x + args.nctas - 1) / args.nctas : 0;
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(CCL_SCHED_MAX_THREADS, 2)
    ccl_cuda_pairs(const __grid_constant__ struct ccl_cuda_pairs args)
{
    __shared__ pairs_shared sh;
    int is_first = threadIdx.x < 32;
    open_shared(args, sh);
    if (is_first) open_tasks(args, sh);
#pragma unroll 1
    for (uint32_t turn = 0;; turn = (turn + 1) % 32) {
        if (is_first) {
            int goes_on = choose_task(args, sh, turn);
            if (goes_on && !sh.sched.move.is_aligned) find_forms(sh.sched.move);
            if (threadIdx.x == 0) sh.sched.goes_on = goes_on;
        }
        __syncthreads();
        if (!sh.sched.goes_on) break;
        move_simple<copy_words>(sh.sched.work, sh.sched.move);
        __syncthreads();
        if (threadIdx.x == 0) finish_move(args, sh);
        if (is_first) __syncwarp();
    }
    if (threadIdx.x == 0 && sh.sched.has_note) store_relaxed_sys(args.note, 0);
}
