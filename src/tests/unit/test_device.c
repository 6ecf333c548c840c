/* Unit tests of the host devices: what a device is, memory, handles, kernels, life of threads.
 * Streams and events among each other are in test_device_streams.c.
 */
#define _GNU_SOURCE
#include "base/doorbell.h"
#include "base/err.h"
#include "unit/device_kit.h"
#include "unit/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEV chorus_devices()

static void *check_other_thread(void *unused)
{
    int device = -1;
    CHECK_OK(DEV->get(&device));
    CHECK_EQ(device, 0);
    return unused;
}

static void test_current_device(void)
{
    int ndevices = 0, device = -1;
    pthread_t thread;
    CHECK_OK(DEV->count(&ndevices));
    CHECK_EQ(ndevices, 8);
    CHECK_OK(DEV->set(3));
    CHECK_EQ(DEV->set(8), ncclInvalidArgument);
    CHECK_HAS(ccl_err_last(), "device 8");
    CHECK_EQ(DEV->set(-1), ncclInvalidArgument);
    CHECK_OK(DEV->get(&device));
    CHECK_EQ(device, 3);
    CHECK_EQ(pthread_create(&thread, NULL, check_other_thread, NULL), 0);
    pthread_join(thread, NULL);
    CHECK_OK(DEV->set(0));
}

static void test_info(void)
{
    struct chorus_device_info info;
    char text[64], other[64], want[64];
    CHECK_STR(DEV->kind, "host");
    CHECK_EQ(DEV->size, sizeof *DEV);
    CHECK_OK(DEV->info(5, &info));
    CHECK_STR(info.name, "host device 5");
    CHECK_STR(info.pci, "host:05");
    CHECK(info.total_bytes > 0);
    CHECK(info.free_bytes <= info.total_bytes);
    CHECK_EQ(DEV->info(99, &info), ncclInvalidArgument);
    CHECK_OK(ccl_device()->identity(5, text));
    CHECK_OK(ccl_device()->identity(6, other));
    snprintf(want, sizeof want, "host %ld ", (long)getpid());
    CHECK_HAS(text, want);
    CHECK(strcmp(text, other) != 0);
    CHECK_OK(ccl_device()->identity(5, other));
    CHECK_STR(text, other);
    CHECK(ccl_device()->lanes(0) > 0);
}

static void test_memory(void)
{
    static const size_t sizes[] = {0, 1, 255, 256, 4097, 1 << 20, (3 << 20) + 5};
    void *blocks[TEST_COUNT(sizes)];
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        CHECK_OK(DEV->alloc(&blocks[i], sizes[i]));
        CHECK(blocks[i] != NULL);
        CHECK_EQ((uintptr_t)blocks[i] % 256, 0);
        memset(blocks[i], 0xa5, sizes[i]);
    }
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) CHECK_OK(DEV->free(blocks[i]));
    CHECK_OK(DEV->free(NULL));
    int local = 0;
    CHECK_EQ(DEV->free(&local), ncclInvalidArgument);
    CHECK_HAS(ccl_err_last(), "no block");
    void *block = &local;
    CHECK_EQ(DEV->alloc(&block, (size_t)1 << 60), ncclSystemError);
    CHECK_HAS(ccl_err_last(), "1152921504606846976");
    CHECK(block == NULL);
    CHECK_EQ(DEV->alloc(NULL, 8), ncclInvalidArgument);
}

static void check_move(const unsigned char *from, unsigned char *to, size_t bytes)
{
    memset(to, 0x11, bytes + 2);
    CHECK_OK(DEV->copy(to + 1, from, bytes, NULL));
    CHECK_OK(DEV->stream_sync(NULL));
    CHECK_MEM(to + 1, from, bytes);
    CHECK_EQ(to[0], 0x11);
    CHECK_EQ(to[bytes + 1], 0x11);
    CHECK_OK(DEV->fill(to + 1, 0x1c3, bytes, NULL));
    CHECK_OK(DEV->stream_sync(NULL));
    for (size_t i = 0; i < bytes; i++)
        if (to[i + 1] != 0xc3) FAIL("byte %zu of %zu is %d", i, bytes, to[i + 1]);
    CHECK_EQ(to[0], 0x11);
    CHECK_EQ(to[bytes + 1], 0x11);
}

static void test_copy_and_fill(void)
{
    static const size_t sizes[] = {0, 1, 3, 255, 4097, (1 << 20) - 1, (1 << 20) + 1, (9 << 20) + 7};
    size_t most = sizes[TEST_COUNT(sizes) - 1];
    unsigned char *from = malloc(most), *to = malloc(most + 2);
    CHECK(from != NULL && to != NULL);
    for (size_t i = 0; i < most; i++) from[i] = (unsigned char)(i * 2654435761u >> 13);
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) check_move(from, to, sizes[i]);
    CHECK_OK(DEV->copy(to, to, most, NULL));
    CHECK_OK(DEV->stream_sync(NULL));
    CHECK_EQ(DEV->copy(NULL, from, 1, NULL), ncclInvalidArgument);
    CHECK_EQ(DEV->copy(to, NULL, 1, NULL), ncclInvalidArgument);
    CHECK_EQ(DEV->fill(NULL, 0, 1, NULL), ncclInvalidArgument);
    free(from);
    free(to);
}

static void test_bad_handles(void)
{
    cudaStream_t stream = kit_stream(), odd = (cudaStream_t)(uintptr_t)3;
    chorus_event_t event = kit_event();
    char want[32];
    int flag, device;
    snprintf(want, sizeof want, "stream %p", (void *)odd);
    CHECK_EQ(DEV->stream_sync(odd), ncclInvalidArgument);
    CHECK_HAS(ccl_err_last(), want);
    CHECK_EQ(DEV->stream_query((cudaStream_t)(void *)event, &flag), ncclInvalidArgument);
    CHECK_EQ(DEV->event_sync((chorus_event_t)(void *)stream), ncclInvalidArgument);
    CHECK_EQ(DEV->event_query(NULL, &flag), ncclInvalidArgument);
    CHECK_EQ(DEV->event_record(NULL, stream), ncclInvalidArgument);
    CHECK_EQ(DEV->event_record(event, odd), ncclInvalidArgument);
    CHECK_EQ(DEV->stream_wait(stream, NULL), ncclInvalidArgument);
    CHECK_EQ(DEV->stream_query(stream, NULL), ncclInvalidArgument);
    CHECK_EQ(DEV->host_func(stream, NULL, NULL), ncclInvalidArgument);
    CHECK_EQ(DEV->stream_destroy(NULL), ncclInvalidArgument);
    CHECK_EQ(ccl_device()->stream_device(odd, &device), ncclInvalidArgument);
    CHECK_OK(DEV->stream_destroy(stream));
    CHECK_EQ(DEV->stream_destroy(stream), ncclInvalidArgument);
    CHECK_EQ(DEV->stream_sync(stream), ncclInvalidArgument);
    CHECK_OK(DEV->event_destroy(event));
    CHECK_EQ(DEV->event_destroy(event), ncclInvalidArgument);
}

static void test_default_stream(void)
{
    _Atomic uint32_t gate = 0;
    int device = -1;
    kit_wait_gate(NULL, &gate);
    CHECK_EQ(kit_is_idle((cudaStream_t)(uintptr_t)1), 0);
    CHECK_EQ(kit_is_idle((cudaStream_t)(uintptr_t)2), 0);
    CHECK_OK(DEV->set(1));
    CHECK_EQ(kit_is_idle(NULL), 1);
    CHECK_OK(ccl_device()->stream_device(NULL, &device));
    CHECK_EQ(device, 1);
    cudaStream_t stream = kit_stream();
    CHECK_OK(DEV->set(0));
    CHECK_OK(ccl_device()->stream_device(stream, &device));
    CHECK_EQ(device, 1);
    CHECK_OK(DEV->stream_destroy(stream));
    kit_open(&gate);
    CHECK_OK(DEV->stream_sync(NULL));
}

/* ---- kernels ---- */

enum { NLANES = 32, NRESUMES = 50 };

struct lanes_args {
    uint32_t *counts; /* one a lane, plain: a lane never runs on two threads at once */
    uint32_t *nretired;
    unsigned char filler[3900];
};

static enum ccl_run run_lanes(void *args, uint32_t lane, struct ccl_cursor *cursor)
{
    const struct lanes_args *lanes = args;
    if (lanes->filler[3899] != 7 || cursor->word[7] != lanes->counts[lane]) return CCL_RUN_DONE;
    lanes->counts[lane]++;
    if (++cursor->word[7] == NRESUMES) return CCL_RUN_DONE;
    return CCL_RUN_MORE;
}

static void retire_lanes(void *args)
{
    const struct lanes_args *lanes = args;
    int all = 1;
    for (int i = 0; i < NLANES; i++) all &= lanes->counts[i] == NRESUMES;
    *lanes->nretired += all ? 1 : 100;
}

static void test_lanes(void)
{
    uint32_t counts[NLANES], nretired = 0;
    struct lanes_args args = {.counts = counts, .nretired = &nretired};
    struct ccl_launch_spec spec = {.args = &args,
                                   .args_bytes = sizeof args,
                                   .nlanes = NLANES,
                                   .host = run_lanes,
                                   .retire = retire_lanes};
    cudaStream_t stream = kit_stream();
    for (uint32_t i = 0; i < 50; i++) {
        memset(counts, 0, sizeof counts);
        args.filler[3899] = 7;
        CHECK_OK(ccl_device()->launch(stream, &spec));
        args.filler[3899] = 0; /* the kernel has its own copy */
        CHECK_OK(DEV->stream_sync(stream));
        CHECK_EQ(nretired, i + 1);
    }
    CHECK_OK(DEV->stream_destroy(stream));
}

static void test_bad_launches(void)
{
    char args[8] = {0};
    struct ccl_launch_spec spec = {.args = args, .nlanes = 1, .host = run_lanes};
    spec.args_bytes = CCL_LAUNCH_ARGS_BYTES + 1;
    CHECK_EQ(ccl_device()->launch(NULL, &spec), ncclInvalidArgument);
    CHECK_HAS(ccl_err_last(), "4001");
    spec.args_bytes = 0;
    spec.nlanes = 0;
    CHECK_EQ(ccl_device()->launch(NULL, &spec), ncclInvalidArgument);
    CHECK_EQ(ccl_device()->launch(NULL, NULL), ncclInvalidArgument);
}

/* ---- threads ---- */

static void test_threads_end(void)
{
    int before = kit_count_threads(0);
    _Atomic uint32_t gate = 0;
    cudaStream_t first = kit_stream(), second = kit_stream();
    kit_wait_gate(first, &gate);
    CHECK(kit_count_threads(0) > before);
    CHECK_EQ(DEV->reset(), ncclInvalidUsage);
    kit_open(&gate);
    CHECK_OK(DEV->stream_sync(first));
    CHECK_OK(DEV->reset());
    CHECK_EQ(kit_count_threads(before), before);
    kit_open_gate(second, &gate);
    CHECK_OK(DEV->stream_sync(second));
    CHECK_OK(DEV->stream_destroy(first));
    CHECK(kit_count_threads(0) > before);
    CHECK_OK(ccl_device()->hold());
    CHECK_OK(DEV->stream_destroy(second));
    CHECK(kit_count_threads(0) > before);
    ccl_device()->drop();
    CHECK_EQ(kit_count_threads(before), before);
}

static int is_open(void *gate)
{
    return atomic_load_explicit((_Atomic uint32_t *)gate, memory_order_acquire) != 0;
}

static int never_ready(void *unused)
{
    (void)unused;
    return 0;
}

static void test_help(void)
{
    _Atomic uint32_t gate = 0, never = 0;
    cudaStream_t stream = kit_stream();
    CHECK_EQ(ccl_device()->help_until(is_open, &gate, 1000), 0);
    kit_open_gate(stream, &gate);
    CHECK_EQ(ccl_device()->help_until(is_open, &gate, 20000000), 1);
    CHECK_EQ(ccl_device()->help_until(is_open, &gate, 0), 1);
    kit_wait_gate(stream, &never);
    CHECK_EQ(ccl_device()->help_until(is_open, &never, 1000), 0);
    kit_open(&never);
    while (!kit_is_idle(stream)) ccl_device()->help_until(never_ready, NULL, 1000);
    CHECK_OK(DEV->stream_destroy(stream));
}

static void fail_start(void)
{
    int before = kit_count_threads(0);
    void *block = NULL;
    CHECK_EQ(DEV->alloc(&block, 77), ncclSystemError);
    CHECK_HAS(ccl_err_last(), "77 bytes");
    CHECK_OK(DEV->alloc(&block, 77));
    CHECK_EQ(DEV->fill(block, 1, 77, NULL), ncclSystemError);
    CHECK_HAS(ccl_err_last(), "thread 1");
    CHECK_EQ(kit_count_threads(before), before);
    CHECK_EQ(kit_is_idle(NULL), 1);
    CHECK_OK(DEV->fill(block, 1, 77, NULL));
    CHECK_OK(DEV->stream_sync(NULL));
    CHECK_EQ(((char *)block)[76], 1);
    CHECK_OK(DEV->free(block));
}

static void test_faults(void)
{
#ifdef CCL_FAULTS
    static struct test_output output;
    const char *const env[] = {"CHORUS_FAULTS=device-alloc:1,thread-create:2", NULL};
    test_exec_case("child:fail_start", env, &output);
    if (output.code != 0) FAIL("%s%s", output.out, output.err);
#else
    SKIP("built without FAULTS=1");
#endif
}

static const struct test_case cases[] = {
    {"current_device", test_current_device, 0},
    {"info", test_info, 0},
    {"memory", test_memory, 0},
    {"copy_and_fill", test_copy_and_fill, 0},
    {"bad_handles", test_bad_handles, 0},
    {"default_stream", test_default_stream, 0},
    {"lanes", test_lanes, 0},
    {"bad_launches", test_bad_launches, 0},
    {"threads_end", test_threads_end, 0},
    {"help", test_help, 0},
    {"faults", test_faults, 0},
    {"child:fail_start", fail_start, 0},
};
TEST_LIB_MAIN(cases)
