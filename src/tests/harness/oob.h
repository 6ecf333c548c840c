/* The drivers' own wire between processes, out of band of the library under test: a star.
 *
 * The hub relays all-gathers, progress and failures between n processes; it runs in a thread of
 * rank 0's process (env, mpi) or as the main loop of the parent (spawn). A link is one process's
 * end. A process that leaves without a goodbye is named and ends the run on all others.
 */
#ifndef PERF_OOB_H
#define PERF_OOB_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { PERF_OOB_TEXT = 512 };

/* ---- frames ---- */
enum perf_frame_type {
    PERF_FRAME_HELLO = 1,
    PERF_FRAME_GATHER,   /* process to hub: its contribution */
    PERF_FRAME_RESULT,   /* hub to all: contributions in order */
    PERF_FRAME_PROGRESS, /* somebody's work goes on */
    PERF_FRAME_MISSING,  /* process to hub: a question; hub to process: the text that answers */
    PERF_FRAME_FAIL,     /* code and text; the hub passes it on to all, the sender last */
    PERF_FRAME_GOODBYE,  /* orderly leave with an exit code */
};
struct perf_frame {
    uint32_t magic, type, bytes;
    int32_t code;
};
struct perf_hello {
    uint64_t token; /* equal in all processes of a run */
    int32_t proc, nprocs, first_rank, nranks;
    int32_t pid;
    char host[64];
};

/* Writes a whole frame; 0, or -1 when the other end is gone. */
int perf_frame_send(int fd, const struct perf_frame *frame, const void *payload);
void perf_frame_init(struct perf_frame *frame, enum perf_frame_type type, size_t bytes, int code);
int perf_frame_valid(const struct perf_frame *frame, size_t max_bytes);

/* ---- hub ---- */
struct perf_hub;
struct perf_hub_args {
    int nprocs, ranks_per_proc;
    int listen_fd; /* where processes come from; -1: all are added by hand */
    uint64_t token;
    double timeout_s; /* for all to be there */
    /* Says why a process is gone ("was killed by signal 9 (Killed)"; nothing when the process has
     * said so itself) and returns the exit code for the others. NULL: nobody knows. */
    int (*reason)(int proc, char *text, size_t bytes);
};
/* Takes over listen_fd. Never NULL: ends the process when memory is out. */
struct perf_hub *perf_hub_open(const struct perf_hub_args *args);
/* A connected process. The hub owns fd. */
void perf_hub_add(struct perf_hub *hub, int proc, int fd);
/* Serves until something came or timeout_ms passed. extra_fd (-1: none): 1 is returned when it is
 * readable. */
int perf_hub_serve(struct perf_hub *hub, int extra_fd, int timeout_ms);
/* Ends the run on all processes: code and text go to every one. Only the first counts. */
void perf_hub_fail(struct perf_hub *hub, int code, const char *text);
/* A process is known to have ended (by its parent): as if its connection had broken. */
void perf_hub_ended(struct perf_hub *hub, int proc);
int perf_hub_done(const struct perf_hub *hub);   /* all have left */
int perf_hub_failed(const struct perf_hub *hub); /* code of perf_hub_fail, 0: none */
/* "rank 3" or "ranks 4-7" of a process. */
void perf_hub_name(const struct perf_hub *hub, int proc, char *text, size_t bytes);
void perf_hub_close(struct perf_hub *hub);

/* ---- link ---- */
struct perf_link;
struct perf_link_args {
    int fd; /* owned by the link */
    struct perf_hello hello;
    double timeout_s;     /* for the first all-gather: the rendezvous */
    const char *hub_name; /* "rank 0's process", "the parent" */
    /* The run ends: called once, does not return. told: another process has said why; otherwise
     * this one is the first to know. */
    void (*failed)(int code, const char *text, int told);
};
struct perf_link *perf_link_open(const struct perf_link_args *args);
/* Blocks until all have contributed `bytes`. One thread at a time. A failure does not return. */
void perf_link_allgather(struct perf_link *link, const void *mine, void *all, size_t bytes);
/* Tells the others that work goes on. Never blocks long. */
void perf_link_progress(struct perf_link *link);
/* How often others have told so. */
uint64_t perf_link_peers_progress(struct perf_link *link);
/* Writes whom the all-gather that is under way waits for ("rank 1, ranks 4-7"), "" when none is or
 * nobody. A hub that does not answer within a second is what is missing. Not from `failed`. */
void perf_link_missing(struct perf_link *link, char *text, size_t bytes);
/* Tells all to end with `code` and waits (1 s at most) until they have been told. text "": they
 * end quietly. Returns what they end with, in text too: the first failure counts, which another
 * process or the hub may have told before and which this one may be a consequence of. */
int perf_link_fail(struct perf_link *link, int code, char text[PERF_OOB_TEXT]);
/* Leaves in order. */
void perf_link_close(struct perf_link *link, int code);

/* ---- sockets ---- */
int perf_listen(const char *host, int *port); /* *port 0: any; -1 and errno on error */
/* Connects, trying again until timeout_s has passed; -1 and errno. */
int perf_connect(const char *host, int port, double timeout_s);

#endif
