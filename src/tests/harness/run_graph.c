/* Option -G: the iterations of a thread's ranks as one graph, which the run then launches. The
 * capture begins on the first rank's stream and reaches the others by events, so that a thread
 * launches all of its ranks at once. Nobody launches before everybody has captured: making a graph
 * may wait for the device, where a graph may wait for the others. Where threads or processes share
 * a GPU, a graph of several calls, or a launch behind another one, may take the hardware queue that
 * the call of a peer needs first: there each call is launched alone and waited for.
 */
#include "harness/ending.h"
#include "harness/run.h"
#include "harness/watchdog.h"

#include <stdlib.h>

static const char forking[] = "capturing several streams";

int perf_replays_wait(const struct perf_world *world)
{
    return world->options->graph_launches > 0 && world->callers_share_gpu;
}

static void set_device(const struct perf_rank *rank)
{
    perf_check(perf_devices()->set(rank->device), "setting the device");
}

static chorus_event_t *open_events(const struct perf_thread *thread)
{
    chorus_event_t *events = calloc((size_t)thread->n, sizeof(chorus_event_t));
    if (events == NULL) perf_end(PERF_EXIT_ERROR, "out of memory");
    for (int i = 0; i < thread->n; i++) {
        set_device(&thread->ranks[i]);
        perf_check(perf_devices()->event_create(&events[i]), forking);
    }
    return events;
}

static void close_events(const struct perf_thread *thread, chorus_event_t *events)
{
    for (int i = 0; i < thread->n; i++) perf_devices()->event_destroy(events[i]);
    free(events);
}

/* The streams of the other ranks go into the capture of the first (fork), or all that is on them
 * before what comes on the first (join). */
static void fork_streams(const struct perf_thread *thread, chorus_event_t event)
{
    set_device(&thread->ranks[0]);
    perf_check(perf_devices()->event_record(event, thread->ranks[0].stream), forking);
    for (int i = 1; i < thread->n; i++) {
        set_device(&thread->ranks[i]);
        perf_check(perf_devices()->stream_wait(thread->ranks[i].stream, event), forking);
    }
}

static void join_streams(const struct perf_thread *thread, const chorus_event_t *events)
{
    for (int i = 1; i < thread->n; i++) {
        set_device(&thread->ranks[i]);
        perf_check(perf_devices()->event_record(events[i], thread->ranks[i].stream), forking);
        set_device(&thread->ranks[0]);
        perf_check(perf_devices()->stream_wait(thread->ranks[0].stream, events[i]), forking);
    }
}

perf_graph_t perf_graph_capture(struct perf_thread *thread, const struct perf_issue *issue,
                                int iterations)
{
    const struct perf_rank *first = &thread->ranks[0];
    struct perf_issue next = *issue;
    perf_graph_t graph = NULL;
    perf_watch_phase(thread->ranks, thread->n, "capturing a graph");
    chorus_event_t *events = open_events(thread);
    set_device(first);
    perf_check(perf_devices()->capture_begin(first->stream), "starting a capture");
    fork_streams(thread, events[0]);
    for (int i = 0; i < iterations; i++, next.iteration++) {
        perf_issue(thread, &next);
        perf_watch_tick();
    }
    join_streams(thread, events);
    set_device(first);
    perf_check(perf_devices()->capture_end(first->stream, &graph), "making a graph");
    close_events(thread, events);
    perf_sync(thread);
    perf_thread_barrier(thread);
    return graph;
}

void perf_graph_launch(struct perf_thread *thread, perf_graph_t graph)
{
    set_device(&thread->ranks[0]);
    perf_check(perf_devices()->graph_launch(graph, thread->ranks[0].stream), "launching a graph");
}

void perf_graph_drop(struct perf_thread *thread, perf_graph_t graph)
{
    set_device(&thread->ranks[0]);
    perf_check(perf_devices()->graph_destroy(graph), "destroying a graph");
}
