/* The out-of-band star: hub and links in one process, over socket pairs and over TCP; what a
 * stranger, a lost process, a wrong hello and a failure do.
 */
#define _GNU_SOURCE
#include "harness/oob.h"
#include "harness/usage.h"
#include "unit/test.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TOKEN = 77, MAX_PROCS = 16 };

struct star {
    struct perf_hub *hub;
    struct perf_link *links[MAX_PROCS];
    int nprocs, port;
    pthread_t hub_thread;
};

/* What the links of the running case have been told. The link's thread ends here, as it may
 * not return; the driver's own handler ends the process. */
static struct {
    int code, count;
    char text[PERF_OOB_TEXT];
    pthread_mutex_t lock;
    sem_t changed;
} told = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void be_told(int code, const char *text, int by_other)
{
    (void)by_other;
    pthread_mutex_lock(&told.lock);
    told.code = code;
    told.count++;
    snprintf(told.text, sizeof told.text, "%s", text);
    pthread_mutex_unlock(&told.lock);
    sem_post(&told.changed);
    pthread_exit(NULL);
}

static void *serve(void *argument)
{
    struct perf_hub *hub = argument;
    while (!perf_hub_done(hub)) perf_hub_serve(hub, -1, 100);
    return NULL;
}

static struct perf_link *open_link(int fd, int proc, int nprocs, uint64_t token)
{
    struct perf_link_args args = {.fd = fd,
                                  .hello = {.token = token,
                                            .proc = proc,
                                            .nprocs = nprocs,
                                            .nranks = 2,
                                            .first_rank = 2 * proc,
                                            .pid = (int32_t)getpid(),
                                            .host = "here"},
                                  .timeout_s = 20,
                                  .hub_name = "the hub",
                                  .failed = be_told};
    return perf_link_open(&args);
}

/* n processes; the last `missing` of them do not come. */
static void open_star(struct star *star, int n, int missing, double timeout_s)
{
    memset(star, 0, sizeof *star);
    memset(told.text, 0, sizeof told.text);
    told.code = told.count = 0;
    sem_init(&told.changed, 0, 0);
    star->nprocs = n;
    perf_set_program("oob");
    struct perf_hub_args args = {.nprocs = n,
                                 .ranks_per_proc = 2,
                                 .token = TOKEN,
                                 .timeout_s = timeout_s,
                                 .listen_fd = perf_listen("127.0.0.1", &star->port)};
    CHECK(args.listen_fd >= 0);
    star->hub = perf_hub_open(&args);
    int pair[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    perf_hub_add(star->hub, 0, pair[0]);
    CHECK_EQ(pthread_create(&star->hub_thread, NULL, serve, star->hub), 0);
    star->links[0] = open_link(pair[1], 0, n, TOKEN);
    for (int i = 1; i < n - missing; i++)
        star->links[i] = open_link(perf_connect("127.0.0.1", star->port, 20), i, n, TOKEN);
}

static void close_star(struct star *star)
{
    for (int i = 0; i < star->nprocs; i++) perf_link_close(star->links[i], 0);
    pthread_join(star->hub_thread, NULL);
    perf_hub_close(star->hub);
    sem_destroy(&told.changed);
}

struct member {
    struct star *star;
    int proc, rounds;
    _Atomic int *bad;
};

static void *gather_rounds(void *argument)
{
    struct member *member = argument;
    size_t n = (size_t)member->star->nprocs;
    for (int round = 0; round < member->rounds; round++) {
        size_t bytes = (size_t)round * 7 % 200;
        unsigned char mine[200], *all = calloc(n, 200);
        memset(mine, member->proc * 16 + round, sizeof mine);
        perf_link_allgather(member->star->links[member->proc], mine, all, bytes);
        for (size_t i = 0; i < n * bytes; i++)
            if (all[i] != (unsigned char)((int)(i / bytes) * 16 + round)) (*member->bad)++;
        free(all);
    }
    return NULL;
}

static void gather_with(int n, int rounds)
{
    struct star star;
    _Atomic int bad = 0;
    struct member members[MAX_PROCS];
    pthread_t threads[MAX_PROCS];
    open_star(&star, n, 0, 20);
    for (int i = 0; i < n; i++) {
        members[i] = (struct member){&star, i, rounds, &bad};
        CHECK_EQ(pthread_create(&threads[i], NULL, gather_rounds, &members[i]), 0);
    }
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
    close_star(&star);
    CHECK_EQ(bad, 0);
    CHECK_EQ(told.count, 0);
}

static void test_gather_1(void)
{
    gather_with(1, 20);
}

static void test_gather_2(void)
{
    gather_with(2, 50);
}

static void test_gather_16(void)
{
    gather_with(16, 50);
}

static void wait_told(int n)
{
    for (int i = 0; i < n; i++) sem_wait(&told.changed);
}

static void test_failure(void)
{
    struct star star;
    open_star(&star, 3, 0, 20);
    gather_rounds(&(struct member){&star, 0, 0, NULL});
    char text[PERF_OOB_TEXT] = "because of a reason";
    CHECK_EQ(perf_link_fail(star.links[2], PERF_EXIT_TIMEOUT, text), PERF_EXIT_TIMEOUT);
    wait_told(2);
    CHECK_EQ(told.code, PERF_EXIT_TIMEOUT);
    CHECK_STR(told.text, "because of a reason");
    close_star(&star);
}

/* What a process fails with may follow from what ended the run before: an interrupt at the hub,
 * say, whose first victims are missed by the rest. All learn the first cause, those that have
 * been told of it and those that fail before they were. */
static void test_first_cause(void)
{
    struct star star;
    char first[PERF_OOB_TEXT] = "an interrupt", second[PERF_OOB_TEXT] = "rank 2 is gone";
    char third[PERF_OOB_TEXT] = "rank 2 is gone";
    open_star(&star, 3, 0, 20);
    CHECK_EQ(perf_link_fail(star.links[1], PERF_EXIT_SIGNAL + 2, first), PERF_EXIT_SIGNAL + 2);
    CHECK_EQ(perf_link_fail(star.links[2], PERF_EXIT_ERROR, second), PERF_EXIT_SIGNAL + 2);
    CHECK_STR(second, "an interrupt");
    wait_told(1);
    CHECK_EQ(perf_link_fail(star.links[0], PERF_EXIT_ERROR, third), PERF_EXIT_SIGNAL + 2);
    CHECK_STR(third, "an interrupt");
    CHECK_EQ(told.code, PERF_EXIT_SIGNAL + 2);
    close_star(&star);
}

static void test_lost(void)
{
    struct star star;
    open_star(&star, 3, 1, 20);
    int fd = perf_connect("127.0.0.1", star.port, 20);
    struct perf_hello hello = {
        .token = TOKEN, .proc = 2, .nprocs = 3, .nranks = 2, .pid = 4711, .host = "there"};
    struct perf_frame frame;
    perf_frame_init(&frame, PERF_FRAME_HELLO, sizeof hello, 0);
    CHECK_EQ(perf_frame_send(fd, &frame, &hello), 0);
    close(fd); /* without a goodbye */
    wait_told(2);
    CHECK_EQ(told.code, PERF_EXIT_ERROR);
    CHECK_HAS(told.text, "ranks 4-5");
    CHECK_HAS(told.text, "pid 4711 on there");
    close_star(&star);
}

static void test_missing(void)
{
    struct star star;
    open_star(&star, 4, 2, 0.3);
    wait_told(2);
    CHECK_EQ(told.code, PERF_EXIT_TIMEOUT);
    CHECK_HAS(told.text, "ranks 4-5, ranks 6-7");
    close_star(&star);
}

/* Whom a round waits for: nobody before it begins, those without a contribution afterwards. */
static void test_round_names_missing(void)
{
    struct star star;
    _Atomic int bad = 0;
    pthread_t threads[3];
    char text[PERF_OOB_TEXT] = "";
    open_star(&star, 3, 0, 20);
    perf_link_missing(star.links[2], text, sizeof text);
    CHECK_STR(text, "");
    struct member members[3];
    for (int i = 0; i < 3; i++) members[i] = (struct member){&star, i, 1, &bad};
    CHECK_EQ(pthread_create(&threads[0], NULL, gather_rounds, &members[0]), 0);
    /* Its contribution is on the way: until it is there, nothing is missing. */
    while (text[0] == '\0') perf_link_missing(star.links[0], text, sizeof text);
    CHECK_STR(text, "ranks 2-3, ranks 4-5");
    CHECK_EQ(pthread_create(&threads[1], NULL, gather_rounds, &members[1]), 0);
    while (strstr(text, "2-3") != NULL) perf_link_missing(star.links[2], text, sizeof text);
    CHECK_STR(text, "ranks 4-5");
    CHECK_EQ(pthread_create(&threads[2], NULL, gather_rounds, &members[2]), 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    perf_link_missing(star.links[1], text, sizeof text);
    CHECK_STR(text, "");
    close_star(&star);
    CHECK_EQ(bad, 0);
    CHECK_EQ(told.count, 0);
}

/* A hub that is there but stopped is what is missing. */
static void test_silent_hub(void)
{
    int pair[2];
    char text[PERF_OOB_TEXT];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    struct perf_link *link = open_link(pair[1], 0, 2, TOKEN);
    perf_link_missing(link, text, sizeof text);
    CHECK_STR(text, "the hub");
    perf_link_close(link, 0);
    close(pair[0]);
}

static void test_twice(void)
{
    struct star star;
    open_star(&star, 3, 1, 20);
    struct perf_link *again = open_link(perf_connect("127.0.0.1", star.port, 20), 1, 3, TOKEN);
    wait_told(3);
    CHECK_EQ(told.code, PERF_EXIT_ERROR);
    CHECK_HAS(told.text, "two processes say that they are process 1");
    perf_link_close(again, 0);
    close_star(&star);
}

static void test_other_size(void)
{
    struct star star;
    open_star(&star, 3, 1, 20);
    struct perf_link *other = open_link(perf_connect("127.0.0.1", star.port, 20), 2, 4, TOKEN);
    wait_told(3);
    CHECK_HAS(told.text, "counts 4 processes, process 0 counts 3");
    perf_link_close(other, 0);
    close_star(&star);
}

/* Strangers of all kinds while a run goes on: nobody of the run hears of them. */
static void test_strangers(void)
{
    static const char *const words[] = {"", "GET / HTTP/1.0\r\n\r\n",
                                        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"};
    struct star star;
    int held[8];
    open_star(&star, 2, 0, 20);
    for (int i = 0; i < 60; i++) {
        int fd = perf_connect("127.0.0.1", star.port, 20);
        const char *word = words[i % 3];
        CHECK_EQ(send(fd, word, strlen(word), MSG_NOSIGNAL), (ssize_t)strlen(word));
        if (i < 8)
            held[i] = fd;
        else
            close(fd);
    }
    struct perf_hello hello = {.token = TOKEN + 1, .proc = 1, .nprocs = 2, .nranks = 2};
    struct perf_frame frame;
    perf_frame_init(&frame, PERF_FRAME_HELLO, sizeof hello, 0);
    int fd = perf_connect("127.0.0.1", star.port, 20);
    CHECK_EQ(perf_frame_send(fd, &frame, &hello), 0);
    close(fd);
    _Atomic int bad = 0;
    pthread_t thread;
    struct member one = {&star, 1, 10, &bad}, zero = {&star, 0, 10, &bad};
    CHECK_EQ(pthread_create(&thread, NULL, gather_rounds, &one), 0);
    gather_rounds(&zero);
    pthread_join(thread, NULL);
    close_star(&star);
    for (int i = 0; i < 8; i++) close(held[i]);
    CHECK_EQ(bad, 0);
    CHECK_EQ(told.count, 0);
}

static const struct test_case cases[] = {
    {"oob: all-gathers of 1 process", test_gather_1, 0},
    {"oob: all-gathers of 2 processes", test_gather_2, 0},
    {"oob: all-gathers of 16 processes", test_gather_16, 0},
    {"oob: a failure reaches all others", test_failure, 0},
    {"oob: the first cause is what all end with", test_first_cause, 0},
    {"oob: a lost process is named with ranks, pid and host", test_lost, 0},
    {"oob: missing processes are named at the deadline", test_missing, 0},
    {"oob: a round names those it waits for", test_round_names_missing, 0},
    {"oob: a hub that does not answer is named", test_silent_hub, 0},
    {"oob: two processes with one number", test_twice, 0},
    {"oob: processes that disagree about their number", test_other_size, 0},
    {"oob: strangers do not disturb", test_strangers, 0},
};
TEST_MAIN(cases)
