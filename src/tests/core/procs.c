/* Processes of a test; see procs.h. */
#define _GNU_SOURCE
#include "core/procs.h"

#include "unit/leftover.h"
#include "unit/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINE_FD = 3, HEAR_LIMIT_MS = 20000, END_LIMIT_MS = 110000 };

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void set_id(const ncclUniqueId *id)
{
    char text[2 * sizeof id->internal + 1];
    for (size_t i = 0; i < sizeof id->internal; i++)
        snprintf(text + 2 * i, 3, "%02x", (unsigned char)id->internal[i]);
    setenv("CORE_ID", text, 1);
}

/* In the child: its end of the line becomes descriptor 3, nothing else is inherited. */
static void start_case(const char *name, const char *const env[], int line, int output)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    if (line == LINE_FD)
        fcntl(line, F_SETFD, 0);
    else
        dup2(line, LINE_FD);
    for (size_t i = 0; env != NULL && env[i] != NULL; i++) putenv(strdup(env[i]));
    execl("/proc/self/exe", "core-test", "--child", name, (char *)NULL);
    _exit(127);
}

void procs_start(struct procs *procs, int n, const char *name, const char *const env[])
{
    ncclUniqueId id;
    CHECK(n <= PROCS_MAX);
    CHECK_OK(ncclGetUniqueId(&id));
    set_id(&id);
    set_number("CORE_SIZE", n);
    procs->n = n;
    for (int i = 0; i < n; i++) {
        int ends[2];
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        procs->output[i] = memfd_create("core-test-output", MFD_CLOEXEC);
        CHECK(procs->output[i] >= 0);
        CHECK_EQ(fcntl(procs->output[i], F_SETFL, O_APPEND), 0);
        set_number("CORE_INDEX", i);
        procs->pid[i] = fork();
        if (procs->pid[i] == 0) start_case(name, env, ends[1], procs->output[i]);
        CHECK(procs->pid[i] > 0);
        close(ends[1]);
        procs->line[i] = ends[0];
    }
}

static void print_output(const struct procs *procs, int i)
{
    char text[1500]; /* the end tells what went wrong; a note holds as much */
    off_t bytes = lseek(procs->output[i], 0, SEEK_END), room = sizeof text - 1;
    ssize_t length = pread(procs->output[i], text, (size_t)room, bytes > room ? bytes - room : 0);
    text[length < 0 ? 0 : length] = '\0';
    NOTE("process %d said: %s", i, text);
}

static int hear(int line, char letter)
{
    struct pollfd entry = {.fd = line, .events = POLLIN};
    char got = 0;
    if (poll(&entry, 1, HEAR_LIMIT_MS) != 1) return 0;
    return read(line, &got, 1) == 1 && got == letter;
}

void procs_hear(struct procs *procs, int i, char letter)
{
    if (hear(procs->line[i], letter)) return;
    for (int p = 0; p < procs->n; p++) print_output(procs, p);
    FAIL("process %d did not say '%c'", i, letter);
}

void procs_say(struct procs *procs, int i, char letter)
{
    CHECK_EQ(send(procs->line[i], &letter, 1, MSG_NOSIGNAL), 1);
}

void procs_signal(struct procs *procs, int i, int number)
{
    CHECK_EQ(kill(procs->pid[i], number), 0);
}

/* The status of waitpid, or -1 when the process had to be killed at the deadline. */
static int await_end(pid_t pid, int64_t end_ms)
{
    int status = 0, late = 0, watch = (int)syscall(SYS_pidfd_open, pid, 0);
    if (watch >= 0) {
        struct pollfd entry = {.fd = watch, .events = POLLIN};
        int64_t left = end_ms - kit_now_ms();
        late = poll(&entry, 1, left < 0 ? 0 : (int)left) == 0;
        close(watch);
    }
    if (late) kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return late ? -1 : status;
}

void procs_end(struct procs *procs, int killed)
{
    int64_t end = kit_now_ms() + END_LIMIT_MS;
    int bad = -1;
    for (int i = 0; i < procs->n; i++) {
        int status = await_end(procs->pid[i], end);
        int fine = i == killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0;
        if (status == -1) NOTE("process %d did not end", i);
        if (!fine) print_output(procs, i);
        if (!fine && bad < 0) bad = i;
        close(procs->line[i]);
        close(procs->output[i]);
    }
    if (bad >= 0) FAIL("process %d of %d failed", bad, procs->n);
}

/* ---- in such a process ---- */

static int get_number(const char *name)
{
    const char *text = getenv(name);
    CHECK(text != NULL);
    return atoi(text);
}

int proc_index(void)
{
    return get_number("CORE_INDEX");
}

int proc_count(void)
{
    return get_number("CORE_SIZE");
}

ncclUniqueId proc_id(void)
{
    ncclUniqueId id;
    const char *text = getenv("CORE_ID");
    CHECK(text != NULL && strlen(text) == 2 * sizeof id.internal);
    for (size_t i = 0; i < sizeof id.internal; i++) {
        char digits[3] = {text[2 * i], text[2 * i + 1], '\0'};
        id.internal[i] = (char)strtoul(digits, NULL, 16);
    }
    return id;
}

void proc_say(char letter)
{
    CHECK_EQ(send(LINE_FD, &letter, 1, MSG_NOSIGNAL), 1);
}

void proc_hear(char letter)
{
    if (!hear(LINE_FD, letter)) FAIL("the parent did not say '%c'", letter);
}

void proc_open(struct kit *kit, int local, size_t count)
{
    proc_open_id(kit, local, count, proc_id());
}

void proc_open_id(struct kit *kit, int local, size_t count, ncclUniqueId id)
{
    int ndevices, n = proc_count() * local, first = proc_index() * local;
    if (test_on_gpu()) kit_far = 1;
    CHECK_OK(chorus_devices()->count(&ndevices));
    kit->nranks = local;
    kit->ndevices = ndevices;
    ncclComm_t comms[KIT_MAX_RANKS];
    CHECK_OK(ncclGroupStart());
    for (int i = 0; i < local; i++) {
        CHECK_OK(chorus_devices()->set(i % ndevices));
        CHECK_OK(ncclCommInitRank(&comms[i], n, id, first + i));
    }
    CHECK_OK(ncclGroupEnd());
    for (int i = 0; i < local; i++) {
        CHECK_OK(chorus_devices()->set(i % ndevices));
        kit_rank_open(&kit->ranks[i], n, first + i, count);
        kit->ranks[i].comm = comms[i];
    }
    CHECK_OK(chorus_devices()->set(0));
}

static struct test_snapshot mark;

static void do_nothing(void *arg, int i)
{
    (void)arg;
    (void)i;
}

void proc_mark(void)
{
    test_lib_prepare();
    /* A sanitizer starts a thread of its own with the first of the process. */
    kit_threads(1, do_nothing, NULL);
    test_lib_settle();
    test_snapshot_take(&mark);
}

static void print_more(const char *what, const char *line)
{
    fprintf(stderr, "left: %s: %s\n", what, line);
}

static int is_clean(void *unused)
{
    struct test_snapshot now;
    (void)unused;
    test_snapshot_take(&now);
    int clean = test_snapshot_diff(&mark, &now, NULL, NULL) == 0;
    test_snapshot_free(&now);
    return clean;
}

void proc_check_mark(void)
{
    struct test_snapshot now;
    test_lib_settle();
    int64_t end = kit_now_ms() + 2000;
    while (!is_clean(NULL) && kit_now_ms() < end)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    test_snapshot_take(&now);
    size_t more = test_snapshot_diff(&mark, &now, NULL, print_more);
    test_snapshot_free(&now);
    test_snapshot_free(&mark);
    CHECK_EQ(more, 0);
}
