/* Tests of the base layer that need no environment: errors, clock, memory, doorbells. What is
 * read once per process (log, parameters, fault points) is in test_base_env.c.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/doorbell.h"
#include "base/err.h"
#include "unit/test.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- errors ---- */

static ncclResult_t fail_deep(void)
{
    TRY(ncclSuccess);
    TRY(ccl_err(ncclRemoteError, "rank %d of %d is gone", 3, 8));
    return ncclSuccess;
}

static ncclResult_t fail_through(int *undone)
{
    ncclResult_t rc = ncclSuccess;
    TRY_GOTO(rc, ncclSuccess, fail);
    TRY_GOTO(rc, fail_deep(), fail);
    return ncclSuccess;
fail:
    *undone = 1;
    return rc;
}

static void test_err_travels_unchanged(void)
{
    int undone = 0;
    CHECK_EQ(fail_through(&undone), ncclRemoteError);
    CHECK_EQ(undone, 1);
    CHECK_STR(ccl_err_last(), "rank 3 of 8 is gone");
}

static void test_err_long_text_is_cut(void)
{
    char text[3 * CCL_ERR_TEXT_BYTES];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    CHECK_EQ(ccl_err(ncclSystemError, "%s", text), ncclSystemError);
    CHECK_EQ(strlen(ccl_err_last()), CCL_ERR_TEXT_BYTES - 1);
}

static void test_err_strings(void)
{
    CHECK_STR(ccl_err_string(ncclSuccess), "no error");
    for (int a = 0; a < ncclNumResults; a++)
        for (int b = 0; b < a; b++)
            CHECK(strcmp(ccl_err_string((ncclResult_t)a), ccl_err_string((ncclResult_t)b)) != 0);
    CHECK(ccl_err_string((ncclResult_t)12345) != NULL);
    CHECK(ccl_err_string((ncclResult_t)-1) != NULL);
}

static void *read_last(void *unused)
{
    (void)unused;
    CHECK_STR(ccl_err_last(), "made by the other thread");
    ccl_err(ncclInternalError, "second");
    return NULL;
}

static void test_err_is_of_the_process(void)
{
    pthread_t thread;
    ccl_err(ncclInternalError, "made by the other thread");
    const char *text = ccl_err_last();
    CHECK_EQ(pthread_create(&thread, NULL, read_last, NULL), 0);
    pthread_join(thread, NULL);
    CHECK_STR(text, "made by the other thread"); /* a copy of this thread */
    CHECK_STR(ccl_err_last(), "second");
}

enum { WRITERS = 4, WRITES = 2000 };

static void *write_errors(void *letter)
{
    char text[200];
    memset(text, *(char *)letter, sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (int i = 0; i < WRITES; i++) {
        ccl_err(ncclInternalError, "%s", text);
        const char *last = ccl_err_last();
        CHECK_EQ(strlen(last), sizeof text - 1);
        CHECK_EQ(strspn(last, (char[]){last[0], '\0'}), sizeof text - 1);
    }
    return NULL;
}

static void test_err_texts_never_mix(void)
{
    pthread_t threads[WRITERS];
    char letters[WRITERS] = {'a', 'b', 'c', 'd'};
    for (int i = 0; i < WRITERS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, write_errors, &letters[i]), 0);
    for (int i = 0; i < WRITERS; i++) pthread_join(threads[i], NULL);
}

/* ---- clock ---- */

static void test_clock_is_monotonic(void)
{
    uint64_t last_ns = ccl_clock_ns();
    for (int i = 0; i < 10000; i++) {
        uint64_t now_ns = ccl_clock_ns();
        CHECK(now_ns >= last_ns);
        last_ns = now_ns;
    }
}

static void test_clock_deadlines(void)
{
    uint64_t before_ns = ccl_clock_ns();
    uint64_t deadline_ns = ccl_clock_deadline_ns(2500);
    CHECK(deadline_ns >= before_ns + 2500u * 1000000u);
    CHECK(deadline_ns <= ccl_clock_ns() + 2500u * 1000000u);
    CHECK_EQ(ccl_clock_deadline_ns(-1), UINT64_MAX);
    CHECK_EQ(ccl_clock_poll_ms(UINT64_MAX), 1000);
    CHECK_EQ(ccl_clock_poll_ms(ccl_clock_deadline_ns(3600000)), 1000);
    CHECK_EQ(ccl_clock_poll_ms(0), 0);
    CHECK_EQ(ccl_clock_poll_ms(ccl_clock_ns()), 0);
    int left_ms = ccl_clock_poll_ms(ccl_clock_deadline_ns(500));
    CHECK(left_ms > 0 && left_ms <= 500);
}

static void test_clock_rounds_up(void)
{
    /* A deadline less than a millisecond away must not become a poll of 0 ms that spins. */
    for (int i = 0; i < 1000; i++) {
        uint64_t deadline_ns = ccl_clock_ns() + 900000;
        int left_ms = ccl_clock_poll_ms(deadline_ns);
        CHECK(left_ms == 1 || ccl_clock_ns() >= deadline_ns);
    }
}

/* ---- memory ---- */

static void test_alloc_is_zeroed_and_aligned(void)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4095, 1 << 20};
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        unsigned char *memory = NULL;
        CHECK_OK(ccl_alloc((void **)&memory, sizes[i], 1));
        CHECK(memory != NULL);
        CHECK_EQ((uintptr_t)memory % 64, 0);
        for (size_t at = 0; at < sizes[i]; at++) CHECK_EQ(memory[at], 0);
        memset(memory, 0xff, sizes[i] == 0 ? 1 : sizes[i]);
        ccl_free(memory);
    }
    ccl_free(NULL);
}

static void test_alloc_typed(void)
{
    struct {
        uint64_t a, b;
    } *pair = NULL;
    CHECK_OK(CCL_NEW(&pair, 3));
    CHECK_EQ(pair[2].a + pair[2].b, 0);
    pair[2].b = 1;
    ccl_free(pair);
}

static void test_alloc_too_much(void)
{
    void *memory = &memory;
    CHECK_EQ(ccl_alloc(&memory, SIZE_MAX / 2, 4), ncclSystemError);
    CHECK(memory == NULL);
    CHECK_HAS(ccl_err_last(), "overflows");
    memory = &memory;
    CHECK_EQ(ccl_alloc(&memory, SIZE_MAX - 10, 1), ncclSystemError);
    CHECK(memory == NULL);
}

/* ---- doorbells ---- */

struct visitor {
    struct ccl_bell *bell;
    _Atomic uint32_t flag, answer;
    int rounds;
};

/* Waits for `word` to become `value` as every sleeper of the library does. */
static void wait_for(struct ccl_bell *bell, _Atomic uint32_t *word, uint32_t value)
{
    while (atomic_load(word) != value) {
        uint32_t seen = ccl_bell_prepare(bell);
        if (atomic_load(word) == value) {
            ccl_bell_cancel(bell);
            return;
        }
        ccl_bell_sleep(bell, seen, 30000000); /* a lost wake-up meets the case's time limit */
    }
}

static void *answer_rings(void *argument)
{
    struct visitor *visitor = argument;
    for (uint32_t i = 1; i <= (uint32_t)visitor->rounds; i++) {
        wait_for(visitor->bell, &visitor->flag, i);
        atomic_store(&visitor->answer, i);
        ccl_bell_ring(visitor->bell);
    }
    return NULL;
}

static void test_bell_loses_no_wakeup(void)
{
    struct visitor visitor = {.bell = ccl_bell_self(), .rounds = 20000};
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, answer_rings, &visitor), 0);
    for (uint32_t i = 1; i <= (uint32_t)visitor.rounds; i++) {
        atomic_store(&visitor.flag, i);
        ccl_bell_ring(visitor.bell);
        wait_for(visitor.bell, &visitor.answer, i);
    }
    pthread_join(thread, NULL);
    CHECK_EQ(atomic_load(&visitor.bell->sleepers), 0);
}

static void test_bell_sleep_ends_at_its_timeout(void)
{
    struct ccl_bell *bell = ccl_bell_self();
    uint64_t start_ns = ccl_clock_ns();
    ccl_bell_sleep(bell, ccl_bell_prepare(bell), 20000);
    CHECK(ccl_clock_ns() - start_ns >= 19000000);
    CHECK_EQ(atomic_load(&bell->sleepers), 0);
}

static void test_bell_ring_without_sleeper(void)
{
    struct ccl_bell *bell = ccl_bell_self();
    uint32_t rings = atomic_load(&bell->rings);
    for (int i = 0; i < 100; i++) ccl_bell_ring(bell);
    CHECK_EQ(atomic_load(&bell->rings), rings);
}

static void test_bell_mapped_by_a_peer(void)
{
    struct ccl_bell *self = ccl_bell_self(), *peer = NULL;
    CHECK(ccl_bell_self_fd() >= 0);
    CHECK_OK(ccl_bell_map(ccl_bell_self_fd(), &peer));
    CHECK(peer != self);
    uint32_t seen = ccl_bell_prepare(self);
    ccl_bell_ring(peer); /* sees the sleeper through the other mapping */
    CHECK(atomic_load(&self->rings) == seen + 1);
    ccl_bell_sleep(self, seen, 30000000); /* returns at once: the word has changed */
    ccl_bell_unmap(peer);
    ccl_bell_unmap(NULL);
    CHECK_EQ(ccl_bell_map(-1, &peer), ncclSystemError);
}

static const struct test_case cases[] = {
    {"err: code and text travel up unchanged", test_err_travels_unchanged, 0},
    {"err: a long text is cut", test_err_long_text_is_cut, 0},
    {"err: every code has its own string", test_err_strings, 0},
    {"err: the last text belongs to the process", test_err_is_of_the_process, 0},
    {"err: texts of threads never mix", test_err_texts_never_mix, 0},
    {"clock: never goes back", test_clock_is_monotonic, 0},
    {"clock: deadlines and poll times", test_clock_deadlines, 0},
    {"clock: poll times round up", test_clock_rounds_up, 0},
    {"alloc: zeroed and aligned", test_alloc_is_zeroed_and_aligned, 0},
    {"alloc: typed form", test_alloc_typed, 0},
    {"alloc: too much is an error that names the size", test_alloc_too_much, 0},
    {"doorbell: no wake-up is lost", test_bell_loses_no_wakeup, 0},
    {"doorbell: a sleep ends at its timeout", test_bell_sleep_ends_at_its_timeout, 0},
    {"doorbell: a ring without a sleeper is a load", test_bell_ring_without_sleeper, 0},
    {"doorbell: a peer rings through its mapping", test_bell_mapped_by_a_peer, 0},
};

TEST_LIB_MAIN(cases)
