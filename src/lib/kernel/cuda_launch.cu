/* cuda_launch.cu: which kernel runs an operation, on how many warps, and the launch itself. */
#include "kernel/cuda_launch.h"

#include "kernel/cuda_conn.h"
#include "kernel/cuda_local.h"
#include "kernel/cuda_sched_step.h"
#include "kernel/cuda_words_half.h"
#include "kernel/kernel.h"
#include "nccl.h"

#include <string.h>

#define CUDA_TYPES(row)                                                                            \
    row(ncclInt8, i8) row(ncclUint8, u8) row(ncclInt32, i32) row(ncclUint32, u32)                  \
        row(ncclInt64, i64) row(ncclUint64, u64) row(ncclFloat16, f16) row(ncclFloat32, f32)       \
            row(ncclFloat64, f64) row(ncclBfloat16, bf16) row(ncclFloat8e4m3, e4m3)                \
                row(ncclFloat8e5m2, e5m2)

extern "C" {
#define DECLARE(type, name)                                                                        \
    __global__ void ccl_cuda_local_##name(const struct ccl_local_args);                            \
    __global__ void ccl_cuda_sched_##name(const struct ccl_work);
CUDA_TYPES(DECLARE)
DECLARE(0, copy)
__global__ void ccl_cuda_gate(const struct ccl_gates_args);
__global__ void ccl_cuda_await(const struct ccl_await_args);
__global__ void ccl_cuda_raise(const struct ccl_raise_args);
__global__ void ccl_cuda_takes(const struct ccl_takes_args);
__global__ void ccl_cuda_pairs(const struct ccl_cuda_pairs);
}

struct kernel_row {
    int type;
    const void *local, *sched; /* of cuda_local.h and cuda_sched.h */
    uint32_t elem_bytes;
    int capability; /* of the GPU, at least */
};

#define ROW(type, name)                                                                            \
    {type, (const void *)ccl_cuda_local_##name, (const void *)ccl_cuda_sched_##name,               \
     name##_words::ELEM_BYTES, name##_words::SM},
static const struct kernel_row kernels[] = {CUDA_TYPES(ROW)};
static const struct kernel_row copy_kernel = {-1, (const void *)ccl_cuda_local_copy,
                                              (const void *)ccl_cuda_sched_copy, 0, 0};

enum { NKERNELS = sizeof kernels / sizeof kernels[0], WARP = 32 };

static const struct kernel_row *find_kernel(int type)
{
    for (int i = 0; i < NKERNELS; i++)
        if (kernels[i].type == type) return &kernels[i];
    return NULL;
}

static cudaError_t load_kernel(const struct kernel_row *kernel)
{
    struct cudaFuncAttributes attributes;
    cudaError_t rc = cudaFuncGetAttributes(&attributes, kernel->local);
    return rc == cudaSuccess ? cudaFuncGetAttributes(&attributes, kernel->sched) : rc;
}

int ccl_cuda_load(void)
{
    struct cudaFuncAttributes attributes;
    cudaError_t rc = cudaFuncGetAttributes(&attributes, (const void *)ccl_cuda_gate);
    if (rc == cudaSuccess) rc = cudaFuncGetAttributes(&attributes, (const void *)ccl_cuda_await);
    if (rc == cudaSuccess) rc = cudaFuncGetAttributes(&attributes, (const void *)ccl_cuda_raise);
    if (rc == cudaSuccess) rc = cudaFuncGetAttributes(&attributes, (const void *)ccl_cuda_takes);
    if (rc == cudaSuccess) rc = cudaFuncGetAttributes(&attributes, (const void *)ccl_cuda_pairs);
    if (rc == cudaSuccess) rc = load_kernel(&copy_kernel);
    for (int i = 0; i < NKERNELS && rc == cudaSuccess; i++) rc = load_kernel(&kernels[i]);
    return rc;
}

int ccl_cuda_reduces(int type, int capability)
{
    const struct kernel_row *kernel = find_kernel(type);
    return kernel != NULL && capability >= kernel->capability;
}

/* ---- grids ---- */

/* Tiles, and the CTAs and warps for operations of many tiles, as bench_fold found them best.
 * Memory is quickest when few warps write as much as they read; one that reads more needs more
 * loads in flight, and so does arithmetic on bytes. */
struct local_grid {
    uint32_t tile_bytes, ctas_per_sm, warps;
};

static const struct local_grid copy_grid = {copy_config::TILE_BYTES, 8, 8};
static const struct local_grid short_grid = {short_config::TILE_BYTES, 2, 16};
static const struct local_grid fold_grid = {fold_config::TILE_BYTES, 2, 16};
static const struct local_grid lean_grid = {fold_config::TILE_BYTES, 1, 16};
enum { LEAN_TILES = 8 }; /* a warp, at least */

static const struct local_grid *choose_grid(const struct ccl_work *work,
                                            const struct ccl_local_args *args, uint32_t elem_bytes,
                                            uint32_t nsms)
{
    uint64_t bytes = args->block_bytes * args->nunits, nwarps = (uint64_t)nsms * lean_grid.warps;
    if (bytes <= nwarps * short_grid.tile_bytes) return &short_grid;
    if (!args->is_aligned || elem_bytes == 1 || !ccl_local_writes_more(work)) return &fold_grid;
    return bytes < LEAN_TILES * nwarps * lean_grid.tile_bytes ? &fold_grid : &lean_grid;
}

/* Few tiles: a warp for each, spread over the SMs. Many: what the grid says, or fewer and large
 * CTAs when they are limited. */
static void size_grid(const struct local_grid *grid, uint64_t ntiles,
                      const struct ccl_cuda_target *target, uint32_t *ctas, uint32_t *warps)
{
    uint32_t most = grid->ctas_per_sm * target->nsms, full = grid->warps;
    if (target->max_ctas > 0 && target->max_ctas < most) {
        most = target->max_ctas;
        full = CCL_LOCAL_MAX_THREADS / WARP;
    }
    uint64_t each = (ntiles + most - 1) / most;
    *warps = each < 4 ? 4 : each > full ? full : (uint32_t)each;
    if (ntiles < *warps) *warps = ntiles > 0 ? (uint32_t)ntiles : 1;
    uint64_t needed = (ntiles + *warps - 1) / *warps;
    *ctas = needed > most ? most : needed > 0 ? (uint32_t)needed : 1;
}

static cudaError_t launch_steps(struct ccl_local_args *args, const void *function,
                                const struct local_grid *grid, const struct ccl_cuda_target *target)
{
    uint32_t ctas, warps;
    size_grid(grid, ccl_local_cut(args, grid->tile_bytes), target, &ctas, &warps);
    ccl_local_deal_to(args, ctas * warps);
    void *arguments[] = {args};
    return cudaLaunchKernel(function, dim3(ctas), dim3(warps * WARP), arguments, 0, target->stream);
}

int ccl_cuda_launch_local(const struct ccl_work *work, const struct ccl_cuda_target *target)
{
    const struct kernel_row *kernel = find_kernel(work->type);
    if (kernel == NULL || !ccl_local_fits(work)) return cudaErrorInvalidValue;
    int copies = ccl_local_copies(work);
    const void *function = copies ? copy_kernel.local : kernel->local;
    struct ccl_local_args args;
    uint32_t done = 0, nsteps = work->body[0].nsteps;
    int has_work = work->count_elems > 0 && nsteps > 0;
    int tells = work->ngates > 0 || work->done != NULL;
    if (!has_work && !tells) return cudaSuccess;
    do {
        done += ccl_local_fill(&args, work, done, kernel->elem_bytes);
        args.arrived = target->arrived;
        args.is_last = tells && done >= nsteps;
        const struct local_grid *grid =
            copies ? &copy_grid : choose_grid(work, &args, kernel->elem_bytes, target->nsms);
        cudaError_t rc = launch_steps(&args, function, grid, target);
        if (rc != cudaSuccess) return rc;
    } while (done < nsteps);
    return cudaSuccess;
}

/* ---- several executors ---- */

/* Threads for an item each of the largest piece, but few enough for two CTAs an SM. */
static uint32_t choose_threads(const struct ccl_work *work)
{
    enum { LEAST = 128 };
    uint64_t most = 0;
    for (int b = 0; b < work->nbodies; b++) {
        const struct ccl_body *body = &work->body[b];
        uint64_t items = body->piece_elems * work->elem_bytes;
        items /= body->proto == CCL_PROTO_LL ? 8 : 16;
        if (items > most) most = items;
    }
    if (most >= CCL_SCHED_MAX_THREADS) return CCL_SCHED_MAX_THREADS;
    return most < LEAST ? LEAST : (uint32_t)(most + WARP - 1) / WARP * WARP;
}

int ccl_cuda_launch_sched(const struct ccl_work *work, const struct ccl_cuda_target *target)
{
    const struct kernel_row *kernel = find_kernel(work->type);
    struct ccl_work args;
    if (kernel == NULL || work->nlocal > CCL_MAX_LOCAL) return cudaErrorInvalidValue;
    memcpy(&args, work, offsetof(struct ccl_work, local) + work->nlocal * sizeof work->local[0]);
    args.elem_bytes = (uint8_t)kernel->elem_bytes;
    args.arrived = target->arrived;
    if (work->flags & CCL_WORK_COPIES) kernel = &copy_kernel;
    void *arguments[] = {&args};
    return cudaLaunchKernel(kernel->sched, dim3(work->nchannels), dim3(choose_threads(&args)),
                            arguments, 0, target->stream);
}

/* ---- for core ---- */

/* The number of SMs of the current device, asked once. */
static cudaError_t count_sms(uint32_t *nsms)
{
    enum { KNOWN = 64 };
    static int known[KNOWN];
    int device, n = 0;
    cudaError_t rc = cudaGetDevice(&device);
    if (rc == cudaSuccess && device < KNOWN) n = __atomic_load_n(&known[device], __ATOMIC_RELAXED);
    if (rc == cudaSuccess && n == 0)
        rc = cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, device);
    if (rc == cudaSuccess && device < KNOWN) __atomic_store_n(&known[device], n, __ATOMIC_RELAXED);
    *nsms = (uint32_t)n;
    return rc;
}

int ccl_cuda_kernel_sched(const void *args, cudaStream_t stream)
{
    const struct ccl_work *work = (const struct ccl_work *)args;
    struct ccl_cuda_target target = {stream, work->arrived, 0, work->nchannels};
    cudaError_t rc = count_sms(&target.nsms);
    if (rc != cudaSuccess) return rc;
    return work->nexecs > 1 ? ccl_cuda_launch_sched(work, &target)
                            : ccl_cuda_launch_local(work, &target);
}

/* Threads for a vector each of the largest part that a slot takes. */
int ccl_cuda_kernel_pairs(const void *args, cudaStream_t stream)
{
    enum { LEAST = 128 };
    const struct ccl_cuda_pairs *pairs = (const struct ccl_cuda_pairs *)args;
    const struct ccl_cuda_half *list = pairs->list != NULL ? pairs->list : pairs->halves;
    uint64_t most = 0;
    for (uint32_t i = 0; i < pairs->nhalves; i++)
        if (list[i].bytes > most) most = list[i].bytes;
    if (most > pairs->slot_bytes) most = pairs->slot_bytes;
    uint32_t threads = (uint32_t)(most / 16 + WARP - 1) / WARP * WARP;
    if (threads < LEAST) threads = LEAST;
    if (threads > CCL_SCHED_MAX_THREADS) threads = CCL_SCHED_MAX_THREADS;
    ccl_cuda_pairs<<<pairs->nctas, threads, 0, stream>>>(*pairs);
    return cudaPeekAtLastError();
}

int ccl_cuda_kernel_gates(const void *args, cudaStream_t stream)
{
    const struct ccl_gates_args *gates = (const struct ccl_gates_args *)args;
    ccl_cuda_gate<<<1, gates->ngates, 0, stream>>>(*gates);
    return cudaPeekAtLastError();
}

int ccl_cuda_kernel_await(const void *args, cudaStream_t stream)
{
    ccl_cuda_await<<<1, 1, 0, stream>>>(*(const struct ccl_await_args *)args);
    return cudaPeekAtLastError();
}

int ccl_cuda_kernel_raise(const void *args, cudaStream_t stream)
{
    ccl_cuda_raise<<<1, 1, 0, stream>>>(*(const struct ccl_raise_args *)args);
    return cudaPeekAtLastError();
}

int ccl_cuda_kernel_takes(const void *args, cudaStream_t stream)
{
    ccl_cuda_takes<<<1, 1, 0, stream>>>(*(const struct ccl_takes_args *)args);
    return cudaPeekAtLastError();
}

int ccl_cuda_launch_gate(struct ccl_gate *gate, const uint32_t *abort_word,
                         struct CUstream_st *stream)
{
    struct ccl_gates_args args;
    args.abort_word = abort_word;
    args.ngates = 1;
    args.parts = CCL_GATE_WHOLE;
    args.gates[0] = gate;
    return ccl_cuda_kernel_gates(&args, stream);
}
