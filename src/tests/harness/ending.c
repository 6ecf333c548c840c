/* How a run ends before its time, see ending.h. The process is left by _exit: other threads may
 * be anywhere, in the library too, so nothing of theirs is torn down.
 */
#include "harness/ending.h"

#include "harness/devices.h"
#include "harness/timing.h"
#include "harness/watchdog.h"
#include "harness/world.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct perf_world *run_world;
static struct perf_footer footer = {.status = PERF_RUNNING};
static pthread_mutex_t report_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int reports_on;
static _Atomic int ending;
static _Atomic int footer_wrong; /* data have been found wrong */

void perf_ending_start(struct perf_world *world)
{
    run_world = world;
}

void perf_report_lock(void)
{
    pthread_mutex_lock(&report_mutex);
}

void perf_report_unlock(void)
{
    pthread_mutex_unlock(&report_mutex);
}

void perf_ending_wrong(void)
{
    atomic_store(&footer_wrong, 1);
}

struct perf_footer *perf_ending_footer(void)
{
    return &footer;
}

void perf_ending_reports_on(void)
{
    atomic_store(&reports_on, 1);
}

void perf_ending_reports_off(void)
{
    atomic_store(&reports_on, 0);
}

/* Completes the report in rank 0's process. The thread that holds the lock may be stuck in a
 * write to a full pipe: after two seconds the report is left as it is. */
static int write_footer(int code, const char *text)
{
    if (atomic_load(&footer_wrong) && code < PERF_EXIT_SIGNAL)
        code = perf_verdict_worse(code, PERF_EXIT_WRONG);
    if (!atomic_load(&reports_on)) return code;
    struct timespec until = perf_clock_until(2);
    if (pthread_mutex_timedlock(&report_mutex, &until) != 0) return code;
    footer.status = perf_verdict_status(code);
    footer.error = text != NULL && text[0] != '\0' ? text : NULL;
    if (atomic_exchange(&reports_on, 0)) perf_report_footer(&footer);
    return code;
}

static void wait_for_the_end(void)
{
    for (;;) pause();
}

_Noreturn void perf_end(int code, const char *text)
{
    if (atomic_exchange(&ending, 1) != 0) wait_for_the_end();
    char kept[PERF_OOB_TEXT] = "";
    if (text != NULL) snprintf(kept, sizeof kept, "%s", text);
    if (kept[0] != '\0') fprintf(stderr, "%s: %s\n", perf_program(), kept);
    if (run_world != NULL && run_world->link != NULL)
        code = perf_link_fail(run_world->link, code, kept);
    code = write_footer(code, kept);
    fflush(stdout);
    _exit(code);
}

void perf_end_linked(int code, const char *text, int told)
{
    if (atomic_exchange(&ending, 1) != 0) wait_for_the_end();
    /* With a launcher or a parent all share one stderr, and the cause has been told there. */
    int alone = run_world != NULL && run_world->ops == &perf_world_env && run_world->proc != 0;
    if ((!told || alone) && text[0] != '\0') fprintf(stderr, "%s: %s\n", perf_program(), text);
    if (code == PERF_EXIT_TIMEOUT) perf_watch_describe();
    code = write_footer(code, text);
    fflush(stdout);
    _exit(code);
}

void perf_check(ncclResult_t result, const char *what)
{
    if (result == ncclSuccess) return;
    char text[PERF_OOB_TEXT];
    const char *last = perf_devices_error();
    if (last[0] == '\0' || result != ncclUnhandledCudaError) last = ncclGetLastError(NULL);
    snprintf(text, sizeof text, "%s: %s%s%s", what, ncclGetErrorString(result),
             last != NULL && last[0] != '\0' ? ": " : "", last != NULL ? last : "");
    perf_end(PERF_EXIT_ERROR, text);
}
