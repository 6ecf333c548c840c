/* A rank's memory filled and compared by the CPU, which sees it, see trial.h. */
#include "harness/trial.h"

static void fill_guards(char *data, size_t bytes)
{
    perf_guard_fill(data - PERF_GUARD_BYTES);
    perf_guard_fill(data + bytes);
}

void perf_trial_fill_host(const struct perf_trial *trial)
{
    const struct perf_place *place = &trial->place;
    perf_fill_recv(&trial->fill, trial->pattern, &trial->shape, place->recv);
    perf_fill(&trial->fill, 0, trial->shape.send_elems, place->send);
    fill_guards(place->recv_area, place->recv_area_bytes);
    if (!trial->shape.in_place) fill_guards(place->send_area, place->send_area_bytes);
}

void perf_trial_guard(struct perf_mismatch *mismatch, const size_t *bytes, int offset, uint8_t got)
{
    uint8_t intact[PERF_GUARD_BYTES];
    perf_guard_fill(intact);
    *mismatch = (struct perf_mismatch){.wrong = 1, .guard = PERF_GUARD_WRONG};
    mismatch->first = bytes != NULL ? *bytes + (size_t)offset : (size_t)offset - PERF_GUARD_BYTES;
    mismatch->expected[0] = intact[offset];
    mismatch->got[0] = got;
}

static void compare_guards(struct perf_mismatch *found, const char *data, size_t bytes)
{
    for (int behind = 0; behind < 2; behind++) {
        const char *guard = behind ? data + bytes : data - PERF_GUARD_BYTES;
        int bad = perf_guard_bad(guard);
        found[behind] = (struct perf_mismatch){.guard = PERF_GUARD_WRONG};
        if (bad >= 0)
            perf_trial_guard(&found[behind], behind ? &bytes : NULL, bad, (uint8_t)guard[bad]);
    }
}

void perf_trial_compare_host(const struct perf_trial *trial,
                             struct perf_mismatch found[PERF_TRIAL_PARTS])
{
    const struct perf_place *place = &trial->place;
    for (int i = 0; i < PERF_TRIAL_PARTS; i++) found[i] = (struct perf_mismatch){.wrong = 0};
    perf_compare(&trial->fill, trial->pattern, &trial->shape, place->recv, &found[PERF_TRIAL_RECV]);
    perf_compare_send(&trial->fill, &trial->shape, place->send, &found[PERF_TRIAL_SEND]);
    compare_guards(&found[PERF_TRIAL_RECV_GUARDS], place->recv_area, place->recv_area_bytes);
    if (trial->shape.in_place) return;
    compare_guards(&found[PERF_TRIAL_SEND_GUARDS], place->send_area, place->send_area_bytes);
}
