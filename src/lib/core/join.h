/* join.h: how the members of an executor come together for one collective.
 *
 * Each call of a rank is an arrival at a set; the call that completes the set launches ONE kernel
 * for all members, on its own stream. Members that arrived in the same group end are joined by
 * events; members of earlier calls hold a gate on their stream, since no event may be waited
 * for before it is recorded. On a GPU, where a gate costs more than an event, a call of another
 * thread first parks for a moment on the host. The executor's lock is held but for that.
 */
#ifndef CCL_CORE_JOIN_H
#define CCL_CORE_JOIN_H

#include "core/clique.h"
#include "core/group.h"
#include "core/park.h"

enum ccl_join_state {
    CCL_JOIN_FREE,
    CCL_JOIN_GATHERING, /* members are missing */
    CCL_JOIN_COMPLETE,  /* all have arrived, not launched */
    CCL_JOIN_LAUNCHED,
    CCL_JOIN_BROKEN, /* members disagree */
    CCL_JOIN_NSTATES
};

enum ccl_join_event {
    CCL_JOIN_ARRIVE,
    CCL_JOIN_ARRIVE_LAST,
    CCL_JOIN_DISAGREE,
    CCL_JOIN_LAUNCH,
    CCL_JOIN_RECYCLE,
    CCL_JOIN_NEVENTS
};

struct ccl_member {
    struct ccl_record record;
    chorus_event_t ready;                  /* made at first use, kept with the set */
    uint64_t capture;                      /* of its stream; 0: eager */
    uint8_t arrived, fresh, gated, parked; /* fresh: arrived in the group end in progress */
};

struct ccl_set {
    struct ccl_set *next;
    struct ccl_exec *exec;
    struct ccl_call call;
    uint64_t seq; /* which collective of the communicator, counted per rank */
    enum ccl_join_state state;
    uint16_t narrived, last; /* members; the one who completed the set */
    uint16_t ngates;         /* in use */
    _Atomic int refs;        /* kernel and gates that have not retired, members that park */
    _Atomic int is_launched; /* for those */
    uint64_t capture;        /* that it was launched in; 0: eager */
    chorus_event_t done;     /* recorded by the launch */
    uint32_t *arrived;          /* lanes of the kernel that have ended */
    struct ccl_gate *gates;     /* [nlocal] of members, in the order of their gating */
    struct ccl_member *members; /* [nlocal] */
};

/* Adds the record of one rank. ncclInvalidUsage when it disagrees with the set; the communicator
 * has failed then. */
ncclResult_t ccl_join_post(struct ccl_exec *exec, const struct ccl_record *record);
/* After all records of a group end: launches complete sets in issue order, gates the rest or adds
 * them to `parks`. */
ncclResult_t ccl_join_flush(struct ccl_exec *exec, struct ccl_parks *parks);
/* Puts a gate on the stream of a member that has arrived. */
ncclResult_t ccl_join_gate(struct ccl_set *set, uint16_t member);
/* Sets that are done on a GPU, which tells nobody, may be used again afterwards. */
void ccl_join_recycle(struct ccl_exec *exec);
void ccl_join_free(struct ccl_exec *exec);

#endif
