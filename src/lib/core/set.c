/* set.c: the life of a set: making, arrivals, the moves of its state, and when it is used again. */
#include "core/set.h"

#include "base/alloc.h"
#include "base/err.h"

#define NO_MOVE CCL_SET_NSTATES

enum { LINE_BYTES = 64 };

/* The whole life of a set. */
static const uint8_t moves[CCL_SET_NSTATES][CCL_SET_NEVENTS] = {
    /*                     ARRIVE             ARRIVE_LAST       DISAGREE        LAUNCH
                           RECYCLE */
    [CCL_SET_FREE] = {CCL_SET_GATHERING, CCL_SET_COMPLETE, CCL_SET_BROKEN, NO_MOVE, NO_MOVE},
    [CCL_SET_GATHERING] = {CCL_SET_GATHERING, CCL_SET_COMPLETE, CCL_SET_BROKEN, NO_MOVE, NO_MOVE},
    [CCL_SET_COMPLETE] = {NO_MOVE, NO_MOVE, NO_MOVE, CCL_SET_LAUNCHED, NO_MOVE},
    [CCL_SET_LAUNCHED] = {NO_MOVE, NO_MOVE, NO_MOVE, NO_MOVE, CCL_SET_FREE},
    [CCL_SET_BROKEN] = {NO_MOVE, NO_MOVE, NO_MOVE, NO_MOVE, NO_MOVE},
};

ncclResult_t ccl_set_move(struct ccl_set *set, enum ccl_set_event event)
{
    uint8_t to = moves[set->state][event];
    if (to == NO_MOVE)
        return ccl_clique_fail(set->exec->clique, ncclInternalError, 1,
                               "a set in state %d was moved by event %d", (int)set->state,
                               (int)event);
    set->state = (enum ccl_set_state)to;
    return ncclSuccess;
}

static void free_set(struct ccl_set *set)
{
    const struct chorus_devices *device = &ccl_device()->base;
    for (uint16_t i = 0; set->members != NULL && i < set->nmembers; i++)
        if (set->members[i].ready != NULL) device->event_destroy(set->members[i].ready);
    if (set->done != NULL) device->event_destroy(set->done);
    ccl_device()->flags_free(set->arrived);
    ccl_free(set->members);
    ccl_free(set);
}

static ncclResult_t make_set(struct ccl_exec *exec, uint16_t nmembers, struct ccl_set **out)
{
    ncclResult_t rc;
    struct ccl_set *set;
    TRY(CCL_NEW(&set, 1));
    set->exec = exec;
    set->nmembers = nmembers;
    size_t bytes = LINE_BYTES + nmembers * sizeof(struct ccl_gate);
    TRY_GOTO(rc, ccl_device()->flags_alloc((void **)&set->arrived, bytes), fail);
    set->gates = (struct ccl_gate *)(void *)((char *)set->arrived + LINE_BYTES);
    TRY_GOTO(rc, CCL_NEW(&set->members, nmembers), fail);
    TRY_GOTO(rc, ccl_device()->event_make(&set->done), fail);
    for (uint16_t i = 0; i < nmembers; i++)
        TRY_GOTO(rc, ccl_device()->event_make(&set->members[i].ready), fail);
    *out = set;
    return ncclSuccess;
fail:
    free_set(set);
    return rc;
}

static int is_done(chorus_event_t event)
{
    int done = 0;
    return ccl_device()->base.event_query(event, &done) == ncclSuccess && done;
}

/* Nobody looks at the set any more. Acquire pairs with the last retiring kernel, or with the end
 * of the last park. What a GPU has launched without gates needs the set no longer; with gates not
 * before it is done, and all streams have passed theirs. */
static int is_retired(const struct ccl_set *set)
{
    if (set->state != CCL_SET_LAUNCHED) return 0;
    if (atomic_load_explicit(&set->refs, memory_order_acquire) != 0) return 0;
    if (ccl_device()->retires || set->ngates == 0) return 1;
    for (uint16_t i = 0; i < set->nmembers; i++)
        if (set->members[i].gated && !is_done(set->members[i].ready)) return 0;
    return is_done(set->done);
}

/* A graph may launch it again for as long as the communicator lives. */
static int is_captured(const struct ccl_set *set)
{
    return set->state == CCL_SET_LAUNCHED && set->capture != 0 && set->ngates > 0;
}

void ccl_sets_recycle(struct ccl_sets *sets)
{
    for (struct ccl_set *set = sets->flying; set != NULL; set = sets->flying) {
        int captured = is_captured(set);
        if (!captured && !is_retired(set)) return;
        sets->flying = set->next;
        struct ccl_set **list = captured ? &sets->captured : &sets->idle;
        if (!captured) ccl_set_move(set, CCL_SET_RECYCLE);
        set->next = *list;
        *list = set;
    }
    sets->tail = NULL;
}

ncclResult_t ccl_set_take(struct ccl_sets *sets, struct ccl_exec *exec, uint16_t nmembers,
                          struct ccl_set **out)
{
    ccl_sets_recycle(sets);
    struct ccl_set *set = sets->idle;
    if (set != NULL)
        sets->idle = set->next;
    else
        TRY(make_set(exec, nmembers, &set));
    set->next = NULL;
    set->narrived = set->ngates = 0;
    set->capture = 0;
    set->told = (struct ccl_told){NULL, 0, NULL};
    atomic_store_explicit(&set->is_launched, 0, memory_order_relaxed);
    atomic_store_explicit(&set->chosen, 0, memory_order_relaxed);
    for (uint16_t i = 0; i < nmembers; i++) {
        struct ccl_member *member = &set->members[i];
        member->arrived = member->fresh = member->gated = member->parked = 0;
        member->own = member->held = 0;
    }
    *out = set;
    return ncclSuccess;
}

ncclResult_t ccl_set_arrive(struct ccl_set *set, uint16_t member, const struct ccl_record *record)
{
    set->members[member].record = *record;
    set->members[member].arrived = set->members[member].fresh = 1;
    set->last = member;
    int is_last = ++set->narrived == set->nmembers;
    return ccl_set_move(set, is_last ? CCL_SET_ARRIVE_LAST : CCL_SET_ARRIVE);
}

void ccl_set_fly(struct ccl_sets *sets, struct ccl_set *set)
{
    set->next = NULL;
    if (sets->tail == NULL)
        sets->flying = set;
    else
        sets->tail->next = set;
    sets->tail = set;
}

void ccl_sets_free(struct ccl_sets *sets)
{
    struct ccl_set *lists[] = {sets->flying, sets->idle, sets->captured};
    for (int i = 0; i < 3; i++)
        while (lists[i] != NULL) {
            struct ccl_set *set = lists[i];
            lists[i] = set->next;
            free_set(set);
        }
    *sets = (struct ccl_sets){NULL, NULL, NULL, NULL};
}
