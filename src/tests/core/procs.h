/* Several processes of one test: each runs a "child:" case of this program with a rank, the size
 * and the unique id in its environment, and a socket to its parent for one-letter messages. Used
 * by the test_process programs; nothing here outlives procs_end.
 */
#ifndef CORE_PROCS_H
#define CORE_PROCS_H

#include "core/kit.h"

#include <sys/types.h>

enum { PROCS_MAX = 8 };

struct procs {
    int n;
    pid_t pid[PROCS_MAX];
    int line[PROCS_MAX], output[PROCS_MAX];
};

/* Starts `n` processes of the case `name` with the variables `env`. */
void procs_start(struct procs *procs, int n, const char *name, const char *const env[]);
/* Waits for a letter of process i, up to 20 s. */
void procs_hear(struct procs *procs, int i, char letter);
void procs_say(struct procs *procs, int i, char letter);
void procs_signal(struct procs *procs, int i, int number);
/* Waits for the end of all, up to 40 s; each must exit 0, but for process `killed` (-1: none),
 * which must have died of SIGKILL. */
void procs_end(struct procs *procs, int killed);

/* ---- in such a process ---- */

int proc_index(void);
int proc_count(void);
ncclUniqueId proc_id(void);
void proc_say(char letter);
void proc_hear(char letter);

/* The `local` ranks of this process, local rank i on device i % ndevices, initialised in a group:
 * process p holds ranks p * local and up. kit->nranks counts the local ones. */
void proc_open(struct kit *kit, int local, size_t count);
/* The same with another id, for further communicators. */
void proc_open_id(struct kit *kit, int local, size_t count, ncclUniqueId id);

/* Fails when the process has more files, threads, mappings or sockets than at proc_mark. */
void proc_mark(void);
void proc_check_mark(void);

#endif
