/* kit.cu: see kit.h. */
#include "gpu/kit.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void kit_check(cudaError_t rc, const char *call, const char *file, int line)
{
    if (rc == cudaSuccess) return;
    printf("not ok - %s:%d: %s: %s\n", file, line, call, cudaGetErrorString(rc));
    fflush(stdout);
    _exit(1);
}

static void end_late(int)
{
    static const char text[] = "not ok - the time limit of the program is over\n";
    ssize_t written = write(STDOUT_FILENO, text, sizeof text - 1);
    _exit(written < 0 ? 3 : 1);
}

struct kit_gpu kit_open(unsigned limit_s)
{
    struct kit_gpu gpu;
    int ndevices = 0, major = 0, minor = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (cudaGetDeviceCount(&ndevices) != cudaSuccess || ndevices == 0) {
        printf("1..1\nok 1 - on a GPU # SKIP no GPU here\n");
        exit(0);
    }
    signal(SIGALRM, end_late);
    alarm(limit_s);
    CK(cudaSetDevice(0));
    CK(cudaDeviceGetAttribute(&gpu.nsms, cudaDevAttrMultiProcessorCount, 0));
    CK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    CK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
    gpu.capability = 10 * major + minor;
    CK(cudaStreamCreateWithFlags(&gpu.stream, cudaStreamNonBlocking));
    CK((cudaError_t)ccl_cuda_load());
    return gpu;
}

/* ---- data types ---- */

const struct kit_type kit_types[KIT_NTYPES] = {
    {ncclInt8, "int8", 1, 0, 0},
    {ncclUint8, "uint8", 1, 0, 0},
    {ncclInt32, "int32", 4, 0, 0},
    {ncclUint32, "uint32", 4, 0, 0},
    {ncclInt64, "int64", 8, 0, 0},
    {ncclUint64, "uint64", 8, 0, 0},
    {ncclFloat16, "float16", 2, 0x7c00, 0x3ff},
    {ncclFloat32, "float32", 4, 0x7f800000, 0x7fffff},
    {ncclFloat64, "float64", 8, 0x7ff0000000000000, 0xfffffffffffff},
    {ncclBfloat16, "bfloat16", 2, 0x7f80, 0x7f},
    {ncclFloat8e4m3, "fp8e4m3", 1, 0x78, 0x07},
    {ncclFloat8e5m2, "fp8e5m2", 1, 0x7c, 0x03},
};

/* ---- collectives ---- */

const struct kit_coll kit_colls[CCL_SCHED_NCOLLS] = {
    {CCL_SCHED_ALL_REDUCE, "all_reduce", 0, 0, 1, 0},
    {CCL_SCHED_REDUCE, "reduce", 0, 0, 1, 1},
    {CCL_SCHED_BROADCAST, "broadcast", 0, 0, 0, 1},
    {CCL_SCHED_ALL_GATHER, "all_gather", 0, 1, 0, 0},
    {CCL_SCHED_REDUCE_SCATTER, "reduce_scatter", 1, 0, 1, 0},
    {CCL_SCHED_ALL_TO_ALL, "alltoall", 1, 1, 0, 0},
    {CCL_SCHED_GATHER, "gather", 0, 1, 0, 1},
    {CCL_SCHED_SCATTER, "scatter", 1, 0, 0, 1},
};

void kit_sched_make(struct kit_sched *made, enum ccl_sched_coll coll, int n, int root)
{
    memset(made, 0, sizeof *made);
    made->first_slot[1] = (uint16_t)n;
    for (int i = 0; i < n; i++) made->rank_of[i] = made->slot_of[i] = (uint16_t)i;
    struct ccl_view view = {};
    view.nranks = (uint16_t)n;
    view.nexecs = 1;
    view.first_slot = made->first_slot;
    view.rank_of = made->rank_of;
    view.slot_of = made->slot_of;
    view.mapped = CCL_MAPPED_ALL;
    struct ccl_sched_args args = {};
    args.view = &view;
    args.coll = coll;
    args.root = root;
    if (ccl_algo_direct.build(&args, &made->sched) == ncclSuccess) return;
    printf("not ok - no schedule\n");
    exit(1);
}

void kit_sched_free(struct kit_sched *made)
{
    ccl_sched_free(&made->sched);
}

void kit_work_make(struct ccl_work *work, const struct ccl_step *steps, uint32_t nsteps, int n,
                   const struct kit_type *type, uint64_t count_elems)
{
    memset(work, 0, sizeof *work);
    work->body[0].steps = steps;
    work->body[0].nsteps = (uint16_t)nsteps;
    work->body[0].npieces = 1;
    work->nbodies = work->nchannels = work->nexecs = 1;
    work->nlocal = work->nslots = (uint16_t)n;
    work->count_elems = count_elems;
    work->type = (uint8_t)type->type;
    work->redop = CCL_SUM;
    ccl_size_body(work, &work->body[0], type->bytes, 0);
}

void kit_work_run(const struct ccl_work *work)
{
    struct ccl_work copy = *work;
    struct ccl_cursor cursor = {};
    uint32_t abort_word = 0, error = 0;
    uint64_t note = 0;
    copy.abort_word = &abort_word;
    copy.error = &error;
    copy.note = &note;
    if (ccl_kernel_sched(&copy, 0, &cursor) == CCL_RUN_DONE && error == 0) return;
    printf("not ok - the interpreter of the host does not end\n");
    exit(1);
}

/* ---- numbers ---- */

uint64_t kit_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* Floats near one: the exponent's middle, up to 3 more or less. */
static uint64_t pick_float(const struct kit_type *type, int odd, uint64_t random)
{
    uint64_t lowest = type->exponent & (~type->exponent + 1), sign = 1ull << (8 * type->bytes - 1);
    uint64_t bits = random & (sign | type->mantissa), kind = random >> 57;
    int64_t middle = (int64_t)(type->exponent / 2 & type->exponent) / (int64_t)lowest;
    if (random >> 40 & 1) bits &= ~(type->mantissa >> 2);
    if ((int)(random >> 48 & 63) >= odd)
        return bits | (uint64_t)(middle + (int64_t)(kind % 7) - 3) * lowest;
    switch (kind % 8) {
    case 0: return bits | type->exponent; /* mostly NaN */
    case 1: return (bits & sign) | type->exponent;
    case 2: return bits; /* subnormal */
    case 3: return bits & sign;
    case 4: return (bits & sign) | (type->exponent - lowest) | type->mantissa;
    default: return random & (sign | type->exponent | type->mantissa);
    }
}

void kit_fill(void *to, uint64_t bytes, const struct kit_type *type, int odd, uint64_t *state)
{
    char *at = (char *)to;
    for (uint64_t i = 0; i + type->bytes <= bytes; i += type->bytes) {
        uint64_t random = kit_random(state);
        if (type->exponent != 0) random = pick_float(type, odd, random);
        memcpy(at + i, &random, type->bytes);
    }
}

/* ---- TAP ---- */

static int npassed, nfailed;

void kit_case(int is_good, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("%s %d - ", is_good ? "ok" : "not ok", npassed + nfailed + 1);
    vprintf(format, args);
    printf("\n");
    va_end(args);
    *(is_good ? &npassed : &nfailed) += 1;
}

int kit_close(void)
{
    printf("1..%d\n", npassed + nfailed);
    printf("# %d passed, %d failed\n", npassed, nfailed);
    return nfailed != 0;
}
