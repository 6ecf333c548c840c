/* shape.h: placements of ranks on executors for the tests of schedules, and the view of one. */
#ifndef SIM_SHAPE_H
#define SIM_SHAPE_H

#include "algo/sched.h"

enum { SHAPE_MAX_RANKS = 128 };

/* How ranks are placed. UNEVEN: 1, 2, 3, 4 … ranks. */
enum shape_kind { ONE_EACH, ALL_ON_ONE, PAIRS, INTERLEAVED, UNEVEN, NSHAPES };

struct shape {
    int nranks, nexecs;
    uint16_t exec_of[SHAPE_MAX_RANKS]; /* numbered by lowest rank */
    uint16_t rank_of[SHAPE_MAX_RANKS], slot_of[SHAPE_MAX_RANKS], first_slot[SHAPE_MAX_RANKS + 1];
    struct ccl_view view; /* of executor 0 */
};

/* Fills the shape; 0 when an executor would hold more ranks than it can. */
int shape_make(struct shape *shape, enum shape_kind kind, int nranks, enum ccl_mapped mapped);

int shape_has_root(enum ccl_sched_coll coll);

#endif
