/* Runs programs for tests and keeps what they print. Output goes to memory files, so neither
 * side can block on a full pipe, and the end is awaited on a pidfd with a deadline. */
#define _GNU_SOURCE
#include "unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CASE_TIMEOUT_S = 60 };

/* In the child. The variables are set by putenv, which keeps the caller's strings. */
static void start_program(const char *const argv[], const char *const env[], int out, int err)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    for (size_t i = 0; env != NULL && env[i] != NULL; i++)
        if (strchr(env[i], '=') != NULL)
            putenv(strdup(env[i]));
        else
            unsetenv(env[i]);
    execv(argv[0], (char *const *)(size_t)argv);
    _exit(127);
}

/* The exit code as a shell would give it, -1 when the time was up. */
static int await_end(pid_t pid, unsigned timeout_s)
{
    int status = 0, late = 0;
    int watch = (int)syscall(SYS_pidfd_open, pid, 0);
    if (watch >= 0) {
        struct pollfd entry = {.fd = watch, .events = POLLIN};
        int ready = 0;
        do ready = poll(&entry, 1, (int)timeout_s * 1000);
        while (ready < 0 && errno == EINTR);
        late = ready == 0;
        close(watch);
    }
    if (late) kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    if (late) return -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void read_back(int fd, char *text, size_t bytes)
{
    ssize_t length = pread(fd, text, bytes - 1, 0);
    text[length < 0 ? 0 : length] = '\0';
    close(fd);
}

/* Appending, because positions of memory files are not locked: writers would overwrite. */
static int make_sink(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQ(fcntl(fd, F_SETFL, O_APPEND), 0);
    return fd;
}

void test_exec(const char *const argv[], const char *const env[], unsigned timeout_s,
               struct test_output *output)
{
    int out = make_sink("test-out"), err = make_sink("test-err");
    pid_t child = fork();
    if (child == 0) start_program(argv, env, out, err);
    output->code = child < 0 ? 127 : await_end(child, timeout_s);
    read_back(out, output->out, sizeof output->out);
    read_back(err, output->err, sizeof output->err);
}

void test_exec_case(const char *name, const char *const env[], struct test_output *output)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    CHECK(length > 0);
    path[length] = '\0';
    const char *const argv[] = {path, "--child", name, NULL};
    test_exec(argv, env, CASE_TIMEOUT_S, output);
}
