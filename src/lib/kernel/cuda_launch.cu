/* cuda_launch.cu: which kernel runs an operation, on how many warps, and the launch itself. */
#include "kernel/cuda_launch.h"

#include "kernel/cuda_local.h"
#include "kernel/kernel.h"
#include "nccl.h"

#include <string.h>

#define LOCAL_TYPES(row)                                                                           \
    row(ncclInt8, i8) row(ncclUint8, u8) row(ncclInt32, i32) row(ncclUint32, u32)                  \
        row(ncclInt64, i64) row(ncclUint64, u64) row(ncclFloat16, f16) row(ncclFloat32, f32)       \
            row(ncclFloat64, f64) row(ncclBfloat16, bf16) row(ncclFloat8e4m3, e4m3)                \
                row(ncclFloat8e5m2, e5m2)

extern "C" {
#define DECLARE(type, name) __global__ void ccl_cuda_local_##name(const struct ccl_local_args);
LOCAL_TYPES(DECLARE)
__global__ void ccl_cuda_local_copy(const struct ccl_local_args);
__global__ void ccl_cuda_gate(struct ccl_gate *, const uint32_t *);
}

struct local_kernel {
    int type;
    const void *function;
    uint32_t elem_bytes;
    int capability; /* of the GPU, at least */
};

#define ROW(type, name)                                                                            \
    {type, (const void *)ccl_cuda_local_##name, name##_words::ELEM_BYTES, name##_words::SM},
static const struct local_kernel kernels[] = {LOCAL_TYPES(ROW)};

enum { NKERNELS = sizeof kernels / sizeof kernels[0], WARP = 32 };

static const struct local_kernel *find_kernel(int type)
{
    for (int i = 0; i < NKERNELS; i++)
        if (kernels[i].type == type) return &kernels[i];
    return NULL;
}

int ccl_cuda_load(void)
{
    struct cudaFuncAttributes attributes;
    cudaError_t rc = cudaFuncGetAttributes(&attributes, (const void *)ccl_cuda_gate);
    if (rc == cudaSuccess)
        rc = cudaFuncGetAttributes(&attributes, (const void *)ccl_cuda_local_copy);
    for (int i = 0; i < NKERNELS && rc == cudaSuccess; i++)
        rc = cudaFuncGetAttributes(&attributes, kernels[i].function);
    return rc;
}

int ccl_cuda_reduces(int type, int capability)
{
    const struct local_kernel *kernel = find_kernel(type);
    return kernel != NULL && capability >= kernel->capability;
}

int ccl_cuda_is_local(const struct ccl_work *work)
{
    return ccl_local_fits(work);
}

/* Few tiles: a warp for each, spread over the SMs. Many: what keeps the memory busy. */
static void choose_grid(uint64_t ntiles, const struct ccl_cuda_target *target, uint32_t *ctas,
                        uint32_t *warps)
{
    uint32_t most = CCL_LOCAL_CTAS_PER_SM * target->nsms, full = CCL_LOCAL_MAX_THREADS / WARP;
    if (target->max_ctas > 0 && target->max_ctas < most) most = target->max_ctas;
    uint64_t each = (ntiles + most - 1) / most;
    *warps = each < 4 ? 4 : each > full ? full : (uint32_t)each;
    if (ntiles < *warps) *warps = ntiles > 0 ? (uint32_t)ntiles : 1;
    uint64_t needed = (ntiles + *warps - 1) / *warps;
    *ctas = needed > most ? most : needed > 0 ? (uint32_t)needed : 1;
}

static cudaError_t launch_steps(struct ccl_local_args *args, const void *function,
                                uint32_t tile_bytes, const struct ccl_cuda_target *target)
{
    uint32_t ctas, warps;
    choose_grid(ccl_local_cut(args, tile_bytes), target, &ctas, &warps);
    ccl_local_deal_to(args, ctas * warps);
    void *arguments[] = {args};
    return cudaLaunchKernel(function, dim3(ctas), dim3(warps * WARP), arguments, 0, target->stream);
}

int ccl_cuda_launch_local(const struct ccl_work *work, const struct ccl_cuda_target *target)
{
    const struct local_kernel *kernel = find_kernel(work->type);
    if (kernel == NULL || !ccl_local_fits(work)) return cudaErrorInvalidValue;
    int copies = ccl_local_copies(work);
    const void *function = copies ? (const void *)ccl_cuda_local_copy : kernel->function;
    uint32_t tile_bytes =
        copies ? (uint32_t)copy_config::TILE_BYTES : (uint32_t)fold_config::TILE_BYTES;
    struct ccl_local_args args;
    uint32_t done = 0, nsteps = work->body[0].nsteps;
    int has_work = work->count_elems > 0 && nsteps > 0;
    if (!has_work && work->ngates == 0) return cudaSuccess;
    do {
        done += ccl_local_fill(&args, work, done, kernel->elem_bytes);
        args.arrived = target->arrived;
        args.is_last = work->ngates > 0 && done >= nsteps;
        cudaError_t rc = launch_steps(&args, function, tile_bytes, target);
        if (rc != cudaSuccess) return rc;
    } while (done < nsteps);
    return cudaSuccess;
}

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
    return rc == cudaSuccess ? ccl_cuda_launch_local(work, &target) : rc;
}

int ccl_cuda_kernel_gate(const void *args, cudaStream_t stream)
{
    const struct ccl_gate_args *gate = (const struct ccl_gate_args *)args;
    return ccl_cuda_launch_gate(gate->gate, gate->abort_word, stream);
}

int ccl_cuda_launch_gate(struct ccl_gate *gate, const uint32_t *abort_word,
                         struct CUstream_st *stream)
{
    ccl_cuda_gate<<<1, 1, 0, stream>>>(gate, abort_word);
    return cudaPeekAtLastError();
}
