/* Marks between the iterations of a row, see marks.h. The thread that enqueues owns a set; the
 * watchdog looks at all of them. Invariant: everything of a set is read and written under `lock`,
 * which is held for one record or for a few queries.
 */
#include "harness/marks.h"

#include "harness/devices.h"
#include "harness/ending.h"

#include <pthread.h>
#include <stdlib.h>

/* PARTS: a row as long as -T has this many marks, so that one which takes PARTS times as long as
 * the warm-up said is still seen to go on. */
enum { PARTS = 32, MAX_MARKS = 4096 };

struct perf_marks {
    struct perf_marks *next;
    int device;
    cudaStream_t stream;
    chorus_event_t *events;
    int nevents;  /* made */
    int wanted;   /* of the plan */
    int every;    /* iterations from one mark to the next */
    int recorded; /* events [0, recorded) */
    int reached;  /* of them, seen done */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct perf_marks *sets;

struct perf_marks *perf_marks_open(int device, cudaStream_t stream)
{
    struct perf_marks *marks = calloc(1, sizeof *marks);
    if (marks == NULL) perf_end(PERF_EXIT_ERROR, "out of memory");
    marks->device = device;
    marks->stream = stream;
    pthread_mutex_lock(&lock);
    marks->next = sets;
    sets = marks;
    pthread_mutex_unlock(&lock);
    return marks;
}

void perf_marks_close(struct perf_marks *marks)
{
    struct perf_marks **link = &sets;
    if (marks == NULL) return;
    pthread_mutex_lock(&lock);
    while (*link != marks) link = &(*link)->next;
    *link = marks->next;
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < marks->nevents; i++) perf_devices()->event_destroy(marks->events[i]);
    free(marks->events);
    free(marks);
}

/* How many iterations may pass without a mark; 0: the whole series is short. */
static int choose_every(const struct perf_marks_plan *plan)
{
    double part_s = plan->timeout_s / PARTS;
    int least = (plan->iterations + MAX_MARKS - 1) / MAX_MARKS;
    if (plan->timeout_s <= 0 || plan->iterations <= 0) return 0;
    if (plan->iteration_s < 0) return least;
    if (plan->iteration_s * plan->iterations < part_s) return 0;
    int every = plan->iteration_s > 0 ? (int)(part_s / plan->iteration_s) : 1;
    return every > least ? every : least;
}

static void make_events(struct perf_marks *marks, int wanted)
{
    if (wanted <= marks->nevents) return;
    chorus_event_t *more = realloc(marks->events, (size_t)wanted * sizeof *more);
    if (more == NULL) perf_end(PERF_EXIT_ERROR, "out of memory");
    marks->events = more;
    perf_check(perf_devices()->set(marks->device), "setting the device");
    for (; marks->nevents < wanted; marks->nevents++)
        perf_check(perf_devices()->event_create(&more[marks->nevents]), "making an event");
}

void perf_marks_plan(struct perf_marks *marks, const struct perf_marks_plan *plan)
{
    pthread_mutex_lock(&lock);
    marks->recorded = marks->reached = 0;
    marks->every = choose_every(plan);
    marks->wanted = marks->every > 0 ? plan->iterations / marks->every : 0;
    make_events(marks, marks->wanted);
    pthread_mutex_unlock(&lock);
}

void perf_marks_pass(struct perf_marks *marks, int iteration)
{
    /* Only this thread plans, so these two need no lock. */
    if (marks->every == 0 || (iteration + 1) % marks->every != 0) return;
    pthread_mutex_lock(&lock);
    if (marks->recorded < marks->wanted) {
        perf_check(perf_devices()->set(marks->device), "setting the device");
        perf_check(perf_devices()->event_record(marks->events[marks->recorded], marks->stream),
                   "recording an event");
        marks->recorded++;
    }
    pthread_mutex_unlock(&lock);
}

int perf_marks_look(void)
{
    int count = 0;
    pthread_mutex_lock(&lock);
    for (struct perf_marks *marks = sets; marks != NULL; marks = marks->next) {
        /* The watchdog's thread must not make a context on the first GPU of the host. */
        if (marks->reached < marks->recorded) perf_devices()->set(marks->device);
        while (marks->reached < marks->recorded) {
            int done = 0;
            if (perf_devices()->event_query(marks->events[marks->reached], &done) != ncclSuccess ||
                !done)
                break;
            marks->reached++;
            count++;
        }
    }
    pthread_mutex_unlock(&lock);
    return count;
}
