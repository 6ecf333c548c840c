/* probe NAME… runs these probes, `probe all` every one, `probe` lists them. Each runs in a process
 * group of its own with a limit in seconds; one that hangs is killed and said to hang, which is a
 * result too. This process makes no CUDA call. Exit 1 if a probe hung or failed.
 */
#include "probe/kit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct probe {
    const char *name;
    void (*run)(int arg);
    int arg, limit_s;
    const char *what;
};

static const struct probe probes[] = {
    {"calls", probe_calls, 0, 30, "cost of single calls, ns on the host"},
    {"args", probe_args, 0, 20, "launch by bytes of arguments and CTAs"},
    {"joins", probe_joins, 0, 30, "one kernel for k streams, one thread"},
    {"threads", probe_threads, 0, 30, "one kernel for the streams of k threads"},
    {"words", probe_words, 0, 20, "how soon the host sees the end of a kernel"},
    {"gates", probe_gates, 0, 40, "spinning gates beside kernels that compute"},
    {"graphs", probe_graphs, 8, 30, "8 graphs with gates, one thread, 8 connections"},
    {"graphs-1", probe_graphs, 1, 30, "the same with CUDA_DEVICE_MAX_CONNECTIONS=1"},
    {"identity", probe_identity, 0, 20, "identity and export of kinds of memory"},
    {"blocks", probe_blocks, 0, 15, "allocations of one block in another process"},
    {"locks", probe_locks, 0, 60, "calls of a thread while another one waits in a call"},
    {"memops-2", probe_memops, 2, 20, "stream memory operations, 2 processes"},
    {"memops-4", probe_memops, 4, 20, "the same, 4 processes"},
    {"memops-8", probe_memops, 8, 30, "the same, 8 processes"},
    {"queues", probe_queues, 0, 30, "streams that stand still, and the others"},
    {"queues-1", probe_queues, 1, 30, "the same with CUDA_DEVICE_MAX_CONNECTIONS=1"},
    {"queues-32", probe_queues, 32, 30, "the same with 32"},
    {"copies", probe_copies, 0, 40, "operations of a member beside another process's kernels"},
    {"legacy-free", probe_ipc, 0, 15, "IPC mapping, the exporter frees"},
    {"legacy-kill", probe_ipc, 1, 15, "IPC mapping, the exporter is killed"},
    {"chunk-free", probe_ipc, 2, 15, "mapping of an exported chunk, the exporter frees"},
    {"chunk-kill", probe_ipc, 3, 15, "mapping of an exported chunk, the exporter is killed"},
};
enum { NPROBES = sizeof probes / sizeof probes[0] };

/* Kills the group and takes its first process in; a process stuck in the driver stays behind. */
static void end_group(pid_t pid)
{
    kill(-pid, SIGKILL);
    for (int i = 0; i < 500; i++) {
        if (waitpid(pid, NULL, WNOHANG) != 0) return;
        probe_sleep_us(10000);
    }
    printf("   process %d cannot be killed\n", (int)pid);
}

/* True if the probe ended by itself and well. */
static bool run_probe(const struct probe *probe)
{
    printf("== %s: %s\n", probe->name, probe->what);
    fflush(stdout);
    double began_us = probe_now_us();
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        probe->run(probe->arg);
        fflush(stdout);
        _exit(0);
    }
    setpgid(pid, pid);
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (probe_now_us() - began_us > probe->limit_s * 1e6) {
            end_group(pid);
            printf("-- %s: HANG, ended after %d s\n\n", probe->name, probe->limit_s);
            return false;
        }
        probe_sleep_us(5000);
    }
    kill(-pid, SIGKILL);
    bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    printf("-- %s: %s, %.1f s\n\n", probe->name, good ? "ok" : "FAILED",
           (probe_now_us() - began_us) / 1e6);
    return good;
}

int main(int argc, char **argv)
{
    int found = 0, bad = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < NPROBES; i++) {
        bool asked = false;
        for (int a = 1; a < argc; a++)
            asked = asked || strcmp(argv[a], probes[i].name) == 0 || strcmp(argv[a], "all") == 0;
        if (argc < 2) printf("%-12s %s\n", probes[i].name, probes[i].what);
        if (!asked) continue;
        found++;
        if (!run_probe(&probes[i])) bad++;
    }
    if (argc > 1) printf("%d probes, %d hung or failed\n", found, bad);
    return argc > 1 && (found == 0 || bad > 0);
}
