/* A child process whose stdout and stderr go to unlinked files, so that no amount of output can
 * block it. Used by test_options.c and test_report.c.
 */
#define _GNU_SOURCE
#include "unit/capture.h"

#include "unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void take_back(int fd, char *text, size_t text_bytes)
{
    ssize_t length = pread(fd, text, text_bytes - 1, 0);

    text[length > 0 ? length : 0] = 0;
    close(fd);
}

void capture_run(void (*run)(void *), void *argument, struct capture *capture)
{
    int out = memfd_create("out", MFD_CLOEXEC), err = memfd_create("err", MFD_CLOEXEC);
    int status = 0;
    pid_t child;

    fflush(stdout);
    fflush(stderr);
    child = out < 0 || err < 0 ? -1 : fork();
    if (child < 0) FAIL("no child process");
    if (!child) {
        dup2(out, STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        run(argument);
        fflush(stdout);
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child) FAIL("the child is lost");
    capture->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    take_back(out, capture->out, sizeof capture->out);
    take_back(err, capture->err, sizeof capture->err);
}
