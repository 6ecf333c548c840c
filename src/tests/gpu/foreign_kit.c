/* The test's side of its two servers, see foreign_kit.h. */
#define _GNU_SOURCE
#include "gpu/foreign_kit.h"

#include "base/clock.h"
#include "unit/test.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_MS = 30000, NO_GPU = 77 };

static const char *const names[] = {"the owner", "the user"};

static pid_t start_server(struct kit_scene *scene, int who)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid != 0) return pid;
    int sockets[KIT_PAIRS];
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    for (int p = 0; p < KIT_PAIRS; p++) {
        sockets[p] = scene->sockets[p][who];
        close(scene->sockets[p][1 - who]);
    }
    kit_serve(&scene->servers[who], who, sockets);
    _exit(0);
}

void kit_open(struct kit_scene *scene)
{
    size_t bytes = 2 * sizeof *scene->servers;
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    *scene = (struct kit_scene){.servers = shared};
    for (int p = 0; p < KIT_PAIRS; p++)
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, scene->sockets[p]), 0);
    fflush(stdout);
    for (int who = 0; who < 2; who++) scene->pids[who] = start_server(scene, who);
    for (int p = 0; p < KIT_PAIRS; p++)
        for (int who = 0; who < 2; who++) close(scene->sockets[p][who]);
    for (int who = 0; who < 2; who++)
        (void)kit_ask(scene, who, &(struct kit_call){.op = KIT_STATE});
}

/* A server has ended: without a GPU that is no fault. */
static void say_ended(struct kit_scene *scene, int who, int status)
{
    scene->pids[who] = 0;
    kit_kill(scene, 1 - who);
    munmap(scene->servers, 2 * sizeof *scene->servers);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_GPU) SKIP("no GPU");
    FAIL("%s ended with status 0x%x", names[who], status);
}

void kit_start(struct kit_scene *scene, int who, const struct kit_call *call)
{
    struct kit_server *server = &scene->servers[who];
    server->call = *call;
    /* Pairs with the server's load: the call is there. */
    atomic_fetch_add_explicit(&server->asked, 1, memory_order_release);
}

struct kit_answer kit_finish(struct kit_scene *scene, int who)
{
    struct kit_server *server = &scene->servers[who];
    uint32_t asked = atomic_load_explicit(&server->asked, memory_order_relaxed);
    uint64_t deadline_ns = ccl_clock_deadline_ns(ANSWER_MS);
    /* Pairs with the server's store: the answer is there. */
    for (int i = 0; atomic_load_explicit(&server->answered, memory_order_acquire) != asked; i++) {
        int status;
        if (i % 1000 != 999) {
            sched_yield();
            continue;
        }
        if (waitpid(scene->pids[who], &status, WNOHANG) > 0) say_ended(scene, who, status);
        if (ccl_clock_ns() > deadline_ns) {
            int op = (int)server->call.op;
            for (int w = 0; w < 2; w++) kit_kill(scene, w);
            FAIL("%s does not answer call %d", names[who], op);
        }
    }
    return server->answer;
}

struct kit_answer kit_ask(struct kit_scene *scene, int who, const struct kit_call *call)
{
    kit_start(scene, who, call);
    return kit_finish(scene, who);
}

struct kit_answer kit_good(struct kit_answer answer, const char *file, int line)
{
    struct test_at at = {file, line, "call"};
    if (answer.rc != ncclSuccess) test_fail(at, "%s (%d)", answer.text, (int)answer.rc);
    if (answer.wrong != 0) test_fail(at, "%llu wrong bytes", answer.wrong);
    return answer;
}

void kit_kill(struct kit_scene *scene, int who)
{
    if (scene->pids[who] == 0) return;
    kill(scene->pids[who], SIGKILL);
    waitpid(scene->pids[who], NULL, 0);
    scene->pids[who] = 0;
}

void kit_close(struct kit_scene *scene)
{
    for (int who = 0; who < 2; who++) {
        int status;
        if (scene->pids[who] == 0) continue;
        (void)kit_ask(scene, who, &(struct kit_call){.op = KIT_QUIT});
        CHECK_EQ(waitpid(scene->pids[who], &status, 0), scene->pids[who]);
        scene->pids[who] = 0;
        CHECK_EQ(status, 0);
    }
    munmap(scene->servers, 2 * sizeof *scene->servers);
}
