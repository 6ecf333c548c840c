/* A rank's memory filled and compared by kernels of the device, in order on the rank's stream,
 * see trial.h. Only results come to the host, and the first wrong element.
 *
 * The scratch memory holds one row of a table, put there before each kernel that reads it.
 */
#include "harness/trial.h"

#include "harness/devices.h"
#include "harness/ending.h"
#include "harness/expected.h"
#include "harness/values.h"

#include <string.h>

_Static_assert(PERF_TRIAL_ROW + PERF_TRIAL_PARTS * sizeof(struct perf_value_result) <=
                   PERF_TRIAL_SCRATCH,
               "the scratch memory holds a row and the results");

/* Walks the runs of a buffer. */
struct pass {
    const struct perf_trial *trial;
    char *buffer;
    enum perf_value_mode mode;
    int result; /* which of PERF_TRIAL_PARTS */
};

static struct perf_value_result *result_of(const struct perf_trial *trial, int result)
{
    return (struct perf_value_result *)(void *)((char *)trial->scratch + PERF_TRIAL_ROW) + result;
}

static void copy_back(const struct perf_trial *trial, void *to, const void *from, size_t bytes)
{
    perf_check(perf_devices()->copy(to, from, bytes, trial->stream), "copy from the device");
    perf_check(perf_devices()->stream_sync(trial->stream), "copy from the device");
}

static void do_run(void *state, const struct perf_run *run)
{
    const struct pass *pass = state;
    const struct perf_trial *trial = pass->trial;
    struct perf_source source = perf_source_of(&trial->fill, run->source);
    struct perf_value_job job = {.mode = pass->mode,
                                 .type_bytes = (unsigned)source.type_bytes,
                                 .at = pass->buffer + run->first * source.type_bytes,
                                 .elems = run->elems,
                                 .first = run->first,
                                 .from = run->from,
                                 .seed = source.seed,
                                 .stream = source.stream,
                                 .result = result_of(trial, pass->result)};
    if (run->elems == 0) return;
    if (source.row != NULL) {
        perf_check(perf_devices()->copy(trial->scratch, source.row,
                                        PERF_COLUMNS * source.type_bytes, trial->stream),
                   "copy to the device");
        job.row = trial->scratch;
    }
    /* What nobody may write stands there from the start. */
    if (job.mode == PERF_VALUES_FILL_OTHERS && run->source == PERF_UNTOUCHED)
        job.mode = PERF_VALUES_FILL;
    perf_check(perf_devices()->values(&job, trial->stream), "verification on the device");
}

static void do_guards(const struct perf_trial *trial, enum perf_value_mode mode)
{
    const struct perf_place *place = &trial->place;
    struct perf_value_job job = {.mode = mode,
                                 .at = place->recv_area,
                                 .elems = place->recv_area_bytes,
                                 .result = result_of(trial, PERF_TRIAL_RECV_GUARDS)};
    perf_check(perf_devices()->values(&job, trial->stream), "guards on the device");
    if (trial->shape.in_place) return;
    job.at = place->send_area;
    job.elems = place->send_area_bytes;
    job.result = result_of(trial, PERF_TRIAL_SEND_GUARDS);
    perf_check(perf_devices()->values(&job, trial->stream), "guards on the device");
}

void perf_trial_fill_device(const struct perf_trial *trial)
{
    const struct perf_place *place = &trial->place;
    struct pass recv = {trial, place->recv, PERF_VALUES_FILL_OTHERS, PERF_TRIAL_RECV};
    struct pass send = {trial, place->send, PERF_VALUES_FILL, PERF_TRIAL_SEND};
    struct perf_run all = {.elems = trial->shape.send_elems, .source = trial->shape.rank};
    perf_expected_walk(trial->pattern, &trial->shape, do_run, &recv);
    do_run(&send, &all);
    do_guards(trial, PERF_GUARDS_FILL);
}

/* Finds what an element of a buffer should have been. */
struct lookup {
    const struct perf_fill *fill;
    size_t index;
    uint8_t *expected;
};

static void look_up(void *state, const struct perf_run *run)
{
    const struct lookup *lookup = state;
    if (lookup->index < run->first || lookup->index - run->first >= run->elems) return;
    struct perf_source source = perf_source_of(lookup->fill, run->source);
    uint64_t scratch[PERF_COLUMNS];
    size_t one = 1;
    memcpy(lookup->expected,
           perf_source_piece(&source, run->from + (lookup->index - run->first), &one, scratch),
           source.type_bytes);
}

static void explain(const struct perf_trial *trial, const struct perf_value_result *result,
                    int which, struct perf_mismatch *mismatch)
{
    int is_recv = which == PERF_TRIAL_RECV;
    size_t type_bytes = trial->shape.type_bytes;
    *mismatch = (struct perf_mismatch){.wrong = result->wrong,
                                       .guard = is_recv ? PERF_RECV_WRONG : PERF_SEND_CHANGED};
    if (result->wrong == 0) return;
    mismatch->first = ~result->first_inverted;
    struct lookup lookup = {&trial->fill, mismatch->first, mismatch->expected};
    const char *buffer = is_recv ? trial->place.recv : trial->place.send;
    if (is_recv)
        perf_expected_walk(trial->pattern, &trial->shape, look_up, &lookup);
    else
        perf_expected_walk_send(&trial->shape, look_up, &lookup);
    copy_back(trial, mismatch->got, buffer + mismatch->first * type_bytes, type_bytes);
}

static void explain_guards(const struct perf_trial *trial, const struct perf_value_result *results,
                           const char *area, size_t bytes, struct perf_mismatch *found)
{
    for (int behind = 0; behind < 2; behind++) {
        int offset = (int)~results[behind].first_inverted;
        const char *guard = behind ? area + bytes : area - PERF_GUARD_BYTES;
        uint8_t got;
        if (results[behind].wrong == 0) continue;
        copy_back(trial, &got, guard + offset, 1);
        perf_trial_guard(&found[behind], behind ? &bytes : NULL, offset, got);
    }
}

void perf_trial_compare_device(const struct perf_trial *trial,
                               struct perf_mismatch found[PERF_TRIAL_PARTS])
{
    const struct perf_place *place = &trial->place;
    struct perf_value_result results[PERF_TRIAL_PARTS];
    struct pass recv = {trial, place->recv, PERF_VALUES_COMPARE, PERF_TRIAL_RECV};
    struct pass send = {trial, place->send, PERF_VALUES_COMPARE, PERF_TRIAL_SEND};
    memset(found, 0, PERF_TRIAL_PARTS * sizeof *found);
    perf_check(perf_devices()->fill(result_of(trial, 0), 0, sizeof results, trial->stream),
               "clearing the results");
    perf_expected_walk(trial->pattern, &trial->shape, do_run, &recv);
    perf_expected_walk_send(&trial->shape, do_run, &send);
    do_guards(trial, PERF_GUARDS_COMPARE);
    copy_back(trial, results, result_of(trial, 0), sizeof results);
    for (int which = PERF_TRIAL_RECV; which <= PERF_TRIAL_SEND; which++)
        explain(trial, &results[which], which, &found[which]);
    explain_guards(trial, &results[PERF_TRIAL_RECV_GUARDS], place->recv_area,
                   place->recv_area_bytes, &found[PERF_TRIAL_RECV_GUARDS]);
    explain_guards(trial, &results[PERF_TRIAL_SEND_GUARDS], place->send_area,
                   place->send_area_bytes, &found[PERF_TRIAL_SEND_GUARDS]);
}
