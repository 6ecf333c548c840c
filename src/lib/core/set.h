/* set.h: the calls of ranks of one executor that become one launch: a collective of all of them, or
 * a message between two.
 *
 * Made once and used again. Invariant: a set is taken back when neither a kernel, a gate, a thread
 * nor a graph looks at it any more. The executor's lock is held throughout.
 */
#ifndef CCL_CORE_SET_H
#define CCL_CORE_SET_H

#include "core/clique.h"
#include "core/group.h"

enum ccl_set_state {
    CCL_SET_FREE,
    CCL_SET_GATHERING, /* members are missing */
    CCL_SET_COMPLETE,  /* all have arrived, not launched */
    CCL_SET_LAUNCHED,
    CCL_SET_BROKEN, /* members disagree */
    CCL_SET_NSTATES
};

enum ccl_set_event {
    CCL_SET_ARRIVE,
    CCL_SET_ARRIVE_LAST,
    CCL_SET_DISAGREE,
    CCL_SET_LAUNCH,
    CCL_SET_RECYCLE,
    CCL_SET_NEVENTS
};

struct ccl_member {
    struct ccl_record record;
    struct ccl_gate *gate;                 /* that holds it, if one does */
    chorus_event_t ready;                  /* the stream has come to it; or has passed its gate */
    uint8_t arrived, fresh, gated, parked; /* fresh: arrived in the group end in progress */
    uint8_t own;  /* parked: its thread has recorded `ready` and will let its stream wait itself */
    uint8_t held; /* its stream waits by core/lead.h */
};

/* The kernel's end tells others by a word of the host, and counts its CTAs beside. */
struct ccl_told {
    uint32_t *word; /* NULL: nobody is told */
    uint32_t value, *arrived;
};

struct ccl_set {
    struct ccl_set *next;
    struct ccl_exec *exec;
    struct ccl_call call;
    uint64_t seq; /* which collective of the communicator, counted per rank */
    enum ccl_set_state state;
    uint16_t nmembers, narrived, last; /* last: the one who completed the set */
    uint16_t ngates;                   /* in use */
    uint16_t is_crowded;     /* a message whose caller's stream has others in the group end */
    _Atomic int refs;        /* kernel and gates that have not retired, members that park */
    _Atomic int is_launched; /* for those */
    _Atomic int chosen;      /* the parked member whose thread is to launch it, plus 1; 0: none */
    uint64_t capture;        /* that it was launched in; 0: eager */
    chorus_event_t done;     /* recorded by the launch */
    uint32_t *arrived;       /* lanes of the kernel that have ended */
    struct ccl_told told;
    struct ccl_gate *gates;     /* [nmembers], in the order of their gating */
    struct ccl_member *members; /* [nmembers] */
};

/* An idle set of a pool, or a new one, ready for its first arrival. */
ncclResult_t ccl_set_take(struct ccl_sets *sets, struct ccl_exec *exec, uint16_t nmembers,
                          struct ccl_set **out);
/* Adds the call of a member; it may be the last one. */
ncclResult_t ccl_set_arrive(struct ccl_set *set, uint16_t member, const struct ccl_record *record);
/* ncclInternalError when the table in set.c has no such move. */
ncclResult_t ccl_set_move(struct ccl_set *set, enum ccl_set_event event);
/* Puts a set that was launched, or for which others wait, in flight. */
void ccl_set_fly(struct ccl_sets *sets, struct ccl_set *set);
/* Takes retired sets off the head of the flight. */
void ccl_sets_recycle(struct ccl_sets *sets);
void ccl_sets_free(struct ccl_sets *sets);

#endif
