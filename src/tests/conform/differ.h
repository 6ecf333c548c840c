/* What the differential program and its rows share: a row is one misuse of one function, called in
 * a process of its own in a library that was opened by path. Nothing here is linked with a library.
 */
#ifndef CONFORM_DIFFER_H
#define CONFORM_DIFFER_H

#include "nccl.h"

#include <stddef.h>
#include <stdint.h>

/* What must be there before the call. Only NOTHING needs no device. */
enum differ_need {
    DIFFER_NOTHING,
    DIFFER_DEVICE, /* a current device */
    DIFFER_COMM,   /* also a communicator of one rank and a buffer of 1 MiB */
    DIFFER_RANKS,  /* a communicator of two ranks, both of this thread */
    DIFFER_NNEEDS
};

/* What a row may use. */
struct differ_scene {
    ncclComm_t comm[2];
    char *buffer;
    void *garbage;       /* 1 MiB of the byte 0xa5: no communicator, no window */
    ncclUniqueId id;     /* not from ncclGetUniqueId */
    ncclUniqueId ids[2]; /* all zero */
    ncclConfig_t config;
    ncclSimInfo_t sim;
    ncclCommProperties_t props;
    ncclWaitSignalDesc_t desc;
    ncclTeam_t team; /* {2, 0, 1} */
    ncclMultimemHandle_t multimem;
    uint64_t block[64]; /* room for the structs of the device interface; zero */
    int list[4];
    /* Outputs. */
    ncclComm_t out, many[64];
    ncclWindow_t window;
    ncclRedOp_t op;
    ncclResult_t async;
    ncclParamHandle_t param;
    void *pointer;
    const char *text;
    const char **table;
    int number;
    uint64_t large;
    float scalar;
};

struct differ_row {
    const char *function, *name;
    enum differ_need need;
    int (*run)(struct differ_scene *scene); /* the code that the last call gives */
};

/* The tables: differ_ops.c holds calls that enqueue, differ_rows.c everything else. */
struct differ_rows {
    const struct differ_row *rows;
    size_t nrows;
};
extern const struct differ_rows differ_op_rows, differ_other_rows;

/* A library, as a process of its own found it. */
struct differ_side {
    const char *path;
    char why[256]; /* it cannot be opened, or is no such library; "" when it can */
    int version;
    int is_chorus;
    int has_device; /* a communicator of one rank can be made */
};
void differ_look(struct differ_side *side, unsigned limit_s);

/* A row called in a library, and what came out: "4", "signal 11", "timeout"; or why it was not
 * called: "no device", "set-up 5", "missing" (the library lacks a function). */
struct differ_job {
    const struct differ_side *side;
    const struct differ_row *row;
    char outcome[24];
    int was_called;
    /* While it runs. */
    int child;
    int64_t until_ms;
    struct differ_report *report;
};
/* Runs all of them, at most `at_once` at a time, each for at most limit_s. */
void differ_run(struct differ_job *jobs, size_t njobs, unsigned at_once, unsigned limit_s);

/* Differences that are known: rows "| `function` | case | NVIDIA's | Chorus's | reason |" of a
 * file.
 */
struct differ_known {
    char function[48], name[48];
    char other[24], chorus[24];
    int was_met;
};
struct differ_list {
    struct differ_known *known;
    size_t nknown;
};
/* 0, or 2 after a text on stderr that names file and line. */
int differ_read(const char *path, struct differ_list *list);

/* The function of the library that this process has opened; without it the process ends, and the
 * outcome of the row is "missing". */
void *differ_find(const char *name);
#define F(name) ((__typeof__(&nccl##name))differ_find("nccl" #name))

/* ROW(function, case, need, expression): the expression may call several functions and use `s`. */
#define DIFFER_FUNCTION(function, name, need, expression)                                          \
    static int function##_##name(struct differ_scene *s)                                           \
    {                                                                                              \
        (void)s;                                                                                   \
        return (int)(expression);                                                                  \
    }
#define DIFFER_ROW(function, name, need, expression)                                               \
    {"nccl" #function, #name, DIFFER_##need, function##_##name},

#endif
