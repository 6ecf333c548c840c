/* sched.c: growing a schedule, and the small ranges that all algorithms use. */
#include "algo/sched.h"

#include "base/alloc.h"
#include "base/err.h"

#include <string.h>

/* Doubles an array that is full. */
static ncclResult_t make_room(void **array, uint32_t used, uint32_t *room, size_t item_bytes)
{
    if (used < *room) return ncclSuccess;
    uint32_t grown_room = *room == 0 ? 16 : *room * 2;
    void *grown;
    TRY(ccl_alloc(&grown, grown_room, item_bytes));
    if (used > 0) memcpy(grown, *array, used * item_bytes);
    ccl_free(*array);
    *array = grown;
    *room = grown_room;
    return ncclSuccess;
}

struct ccl_step *ccl_sched_add(struct ccl_sched *sched, enum ccl_kind kind)
{
    if (make_room((void **)&sched->steps, sched->nsteps, &sched->steps_room,
                  sizeof *sched->steps) != ncclSuccess)
        return NULL;
    struct ccl_step *step = &sched->steps[sched->nsteps++];
    memset(step, 0, sizeof *step);
    step->kind = (uint8_t)kind;
    if (kind == CCL_MEET) sched->meets = 1;
    return step;
}

ncclResult_t ccl_sched_put(struct ccl_sched *sched, struct ccl_step step)
{
    struct ccl_step *to = ccl_sched_add(sched, (enum ccl_kind)step.kind);
    if (to == NULL) return ncclSystemError;
    *to = step;
    return ncclSuccess;
}

int ccl_sched_link(struct ccl_sched *sched, uint16_t peer, int is_send)
{
    for (uint32_t i = 0; i < sched->nlinks; i++)
        if (sched->links[i].peer == peer && sched->links[i].is_send == is_send) return (int)i;
    if (make_room((void **)&sched->links, sched->nlinks, &sched->links_room,
                  sizeof *sched->links) != ncclSuccess)
        return -1;
    sched->links[sched->nlinks] = (struct ccl_link){peer, (uint16_t)is_send};
    return (int)sched->nlinks++;
}

void ccl_sched_free(struct ccl_sched *sched)
{
    ccl_free(sched->steps);
    ccl_free(sched->links);
    memset(sched, 0, sizeof *sched);
}

struct ccl_range ccl_range_slots(enum ccl_space space, uint16_t first, uint16_t count,
                                 uint16_t block)
{
    return (struct ccl_range){(uint8_t)space, 0, first, count, 1, (int16_t)block, 0};
}

struct ccl_range ccl_range_links(uint16_t first, uint16_t count)
{
    return (struct ccl_range){CCL_CONN, 0, first, count, 1, 0, 0};
}

struct ccl_range ccl_view_locals(const struct ccl_view *view, enum ccl_space space, uint16_t block)
{
    return ccl_range_slots(space, view->first_slot[view->self], ccl_view_count(view, view->self),
                           block);
}

uint16_t ccl_view_most(const struct ccl_view *view)
{
    uint16_t most = 0;
    for (uint16_t e = 0; e < view->nexecs; e++)
        if (ccl_view_count(view, e) > most) most = ccl_view_count(view, e);
    return most;
}

uint16_t ccl_view_exec_of(const struct ccl_view *view, int rank)
{
    uint16_t slot = view->slot_of[rank], e = 0;
    while (view->first_slot[e + 1] <= slot) e++;
    return e;
}
