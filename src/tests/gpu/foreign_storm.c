/* Many threads of one process at once: some export or import the same buffers again and again,
 * one sweeps or collects meanwhile, with limits that unmap all the time. Every call has to succeed
 * and every mapping to show what its block holds. Part of the servers of test_foreign.
 */
#include "gpu/foreign_kit.h"

#include "base/clock.h"
#include "unit/test.h"

#include <cuda_runtime_api.h>
#include <pthread.h>

enum { NTHREADS = 4, ROUNDS = 1500, TAG_BYTES = 8 };

struct worker {
    pthread_t thread;
    const struct kit_storm *storm;
    int number;
    unsigned nbad;
};

static atomic_int is_over;

static struct ccl_sock_wait some_time(void)
{
    return (struct ccl_sock_wait){.deadline_ns = ccl_clock_deadline_ns(10000)};
}

static int export_one(const struct kit_storm *storm, int pair, int k)
{
    struct ccl_foreign_ref ref;
    struct ccl_sock_wait wait = some_time();
    return ccl_export_buffer(storm->exporters[pair], storm->addresses[k], storm->bytes, &wait,
                             &ref) == ncclSuccess &&
           ref.span == storm->refs[k].span;
}

static int read_tag(const char *address, uint64_t *tag)
{
    cudaStream_t stream;
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return 0;
    int is_read =
        cudaMemcpyAsync(tag, address, TAG_BYTES, cudaMemcpyDefault, stream) == cudaSuccess &&
        cudaStreamSynchronize(stream) == cudaSuccess;
    return cudaStreamDestroy(stream) == cudaSuccess && is_read;
}

static int import_one(const struct kit_storm *storm, int pair, int k)
{
    struct ccl_imported imported;
    struct ccl_sock_wait wait = some_time();
    uint64_t tag = 0;
    if (ccl_import_buffer(storm->importers[pair], &storm->refs[k], storm->bytes, &wait,
                          &imported) != ncclSuccess)
        return 0;
    int is_right = read_tag(imported.address, &tag) && tag == storm->tags[k];
    ccl_import_unpin(imported.region);
    return is_right;
}

static void *work(void *argument)
{
    struct worker *me = argument;
    int is_owner = me->storm->exporters[0] != NULL, pair = me->number % KIT_PAIRS;
    for (int i = 0; i < ROUNDS; i++) {
        int k = (i * 7 + me->number * 3) % me->storm->n;
        me->nbad += !(is_owner ? export_one : import_one)(me->storm, pair, k);
    }
    return NULL;
}

static void *tidy(void *argument)
{
    struct worker *me = argument;
    while (!is_over)
        for (int p = 0; p < KIT_PAIRS; p++)
            me->nbad += (me->storm->exporters[0] != NULL
                             ? ccl_export_sweep(me->storm->exporters[p])
                             : ccl_import_collect(me->storm->importers[p])) != ncclSuccess;
    return NULL;
}

/* What each block holds, read before the others begin. */
static void read_tags(struct kit_storm *storm)
{
    struct ccl_sock_wait wait = some_time();
    for (int k = 0; k < storm->n && storm->importers[0] != NULL; k++) {
        struct ccl_imported imported;
        CHECK_OK(ccl_import_buffer(storm->importers[0], &storm->refs[k], storm->bytes, &wait,
                                   &imported));
        CHECK(read_tag(imported.address, &storm->tags[k]));
        CHECK(k == 0 || storm->tags[k] != storm->tags[k - 1]);
        ccl_import_unpin(imported.region);
    }
}

unsigned kit_storm(struct kit_storm *storm)
{
    struct worker workers[NTHREADS + 1];
    unsigned nbad = 0;
    is_over = 0;
    read_tags(storm);
    for (int i = 0; i <= NTHREADS; i++) {
        workers[i] = (struct worker){.storm = storm, .number = i};
        CHECK_EQ(pthread_create(&workers[i].thread, NULL, i < NTHREADS ? work : tidy, &workers[i]),
                 0);
    }
    for (int i = 0; i <= NTHREADS; i++) {
        is_over = i == NTHREADS;
        pthread_join(workers[i].thread, NULL);
        nbad += workers[i].nbad;
    }
    return nbad;
}
