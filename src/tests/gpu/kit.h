/* kit.h: what the GPU tests and benches of the kernels share: works from real schedules, memory on
 * the GPU, times, TAP lines. The programs are C++ compiled by nvcc; the library's headers are C.
 * No program hangs: each sets a limit for the whole of itself.
 */
#ifndef GPU_KIT_H
#define GPU_KIT_H

#include "kernel/cuda_launch.h"
#include "nccl.h"

#include <cuda_runtime.h>
#include <stdint.h>

extern "C" {
#include "algo/sched.h"
#include "kernel/kernel.h"
#include "kernel/size.h"
}

/* Ends the program with the place and the error. */
#define CK(call) kit_check((call), #call, __FILE__, __LINE__)
void kit_check(cudaError_t rc, const char *call, const char *file, int line);

/* Opens the first GPU and loads the kernels; after limit_s seconds the program ends with status 1
 * and says so. Without a GPU it prints a skipped case and ends with 0. */
struct kit_gpu {
    int nsms, capability;
    cudaStream_t stream;
};
struct kit_gpu kit_open(unsigned limit_s);

/* ---- data types ---- */

struct kit_type {
    int type; /* ncclDataType_t */
    const char *name;
    uint32_t bytes;
    uint64_t exponent, mantissa; /* bits of a float; 0: an integer */
};
enum { KIT_NTYPES = 12 };
extern const struct kit_type kit_types[KIT_NTYPES];

/* ---- collectives of one executor ---- */

enum { KIT_MAX_RANKS = CCL_MAX_LOCAL };

/* Blocks of a rank's input and output. */
struct kit_coll {
    enum ccl_sched_coll coll;
    const char *name;
    int in_all, out_all; /* a block per rank, else one */
    int reduces, has_root;
};
extern const struct kit_coll kit_colls[CCL_SCHED_NCOLLS];

/* The direct schedule of n ranks on one executor. Freed by kit_sched_free. */
struct kit_sched {
    struct ccl_sched sched;
    uint16_t first_slot[2], rank_of[KIT_MAX_RANKS], slot_of[KIT_MAX_RANKS];
};
void kit_sched_make(struct kit_sched *made, enum ccl_sched_coll coll, int n, int root);
void kit_sched_free(struct kit_sched *made);

/* A work without buffers that runs these steps for n ranks on one executor. */
void kit_work_make(struct ccl_work *work, const struct ccl_step *steps, uint32_t nsteps, int n,
                   const struct kit_type *type, uint64_t count_elems);

/* Runs a work on the host by the interpreter. */
void kit_work_run(const struct ccl_work *work);

/* ---- numbers ---- */

/* The next random number; *state is the seed at first. */
uint64_t kit_random(uint64_t *state);

/* Random elements: `odd` of 64 of them are NaN, infinite, subnormal or zero, others are near one.
 */
void kit_fill(void *to, uint64_t bytes, const struct kit_type *type, int odd, uint64_t *state);

/* ---- TAP ---- */

/* Prints "ok" or "not ok" with a number. */
void kit_case(int is_good, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The plan and a count; the exit code. */
int kit_close(void);

#endif
