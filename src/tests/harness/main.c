/* The life of a driver: options, signals, world, communicators, run, footer, exit code. Every
 * step ends the process by itself when it fails (harness/ending.h).
 */
#include "harness/baseline.h"
#include "harness/coll.h"
#include "harness/devices.h"
#include "harness/ending.h"
#include "harness/help.h"
#include "harness/run.h"
#include "harness/signals.h"
#include "harness/watchdog.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* NCCL_TESTS_MIN_BW in GB/s, 0: none. */
static double read_min_busbw(void)
{
    const char *text = getenv("NCCL_TESTS_MIN_BW");
    if (text == NULL || text[0] == '\0') return 0;
    char *end;
    errno = 0;
    double wanted = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !(wanted >= 0) || wanted > 1e9)
        perf_usage("NCCL_TESTS_MIN_BW: '%s' is no bandwidth in GB/s", text);
    return wanted;
}

/* An error that all processes find: rank 0's says it, all leave in order. */
static void leave(struct perf_world *world, int code, const char *text)
{
    if (world->proc == 0)
        fprintf(stderr, "%s: %s%s\n", perf_program(), text,
                code == PERF_EXIT_USAGE ? " (try --help)" : "");
    perf_watch_stop();
    perf_world_close(world, code);
    exit(code);
}

/* Processes of several hosts may find different things: the worst is what all leave with. */
static void choose_devices(struct perf_world *world)
{
    char text[PERF_OOB_TEXT] = "another process cannot use its devices";
    int code = perf_devices_choose(world->host_ranks, text, sizeof text), worst = PERF_EXIT_OK;
    if (code == PERF_EXIT_OK && world->options->graph_launches > 0 &&
        perf_devices()->graph_launch == NULL) {
        snprintf(text, sizeof text, "option -G: host devices have no graphs; it needs GPUs");
        code = PERF_EXIT_USAGE;
    }
    int *all = calloc((size_t)world->nprocs, sizeof *all);
    if (all == NULL) perf_end(PERF_EXIT_ERROR, "out of memory");
    perf_world_allgather(world, &code, all, sizeof code);
    for (int p = 0; p < world->nprocs; p++) worst = perf_verdict_worse(worst, all[p]);
    free(all);
    if (worst != PERF_EXIT_OK) leave(world, worst, text);
}

static void check_world(struct perf_world *world)
{
    char text[PERF_OOB_TEXT];
    if (world->options->pairs && world->ngroups > 1)
        leave(world, PERF_EXIT_USAGE, "option --pairs: not together with NCCL_TESTS_SPLIT");
    int sizes[2] = {world->smallest_group, world->largest_group};
    for (int i = 0; i < 2; i++)
        if (perf_options_check_world(world->options, world->coll, sizes[i], text, sizeof text))
            leave(world, PERF_EXIT_USAGE, text);
}

/* The driver's own set-up reads variables and may complain: only one process does so aloud. */
static void prepare_driver(struct perf_world *world)
{
    const struct perf_coll *coll = world->coll;
    if (coll->prepare == NULL) return;
    int code = 0;
    if (world->proc == 0) code = coll->prepare(world->options, world->largest_group);
    int *all = calloc((size_t)world->nprocs, sizeof *all);
    if (all == NULL) perf_end(PERF_EXIT_ERROR, "out of memory");
    perf_world_allgather(world, &code, all, sizeof code);
    code = all[0];
    free(all);
    if (code == 0 && world->proc != 0) code = coll->prepare(world->options, world->largest_group);
    if (code == 0) return;
    perf_watch_stop();
    perf_world_close(world, code);
    exit(code);
}

/* The report could not be written: nothing more is written, EPIPE is no news. */
static void report_failed(int code)
{
    perf_ending_reports_off();
    perf_end(code, code == PERF_EXIT_SIGNAL + SIGPIPE ? "" : "the report cannot be written");
}

static const char timed_trips[] =
    "wall clock from the first call to the completion of the last, divided by the messages that "
    "follow each other: half of a round trip; the barrier before is not timed";

/* Rank 0's process compares with the baseline, and only it need find the file. */
static void load_baseline(const struct perf_world *world)
{
    char why[PERF_OOB_TEXT];
    int code = world->proc == 0 ? perf_baseline_load(world->options, why, sizeof why) : 0;
    if (code != 0) perf_end(code, why);
}

static void write_header(const struct perf_sweep *sweep)
{
    const struct perf_world *world = sweep->world;
    char why[PERF_OOB_TEXT];
    static struct perf_header header; /* the baseline's judgement looks at it later */
    header = (struct perf_header){.options = world->options,
                                  .coll = world->coll,
                                  .nranks = world->nranks,
                                  .nprocs = world->nprocs,
                                  .group_size = world->ranks[0].group_size,
                                  .ngroups = world->ngroups,
                                  .ranks_per_device = world->ranks_per_device,
                                  .ndevices = world->ndevices,
                                  .ranks = world->info,
                                  .init_call = world->init_call,
                                  .init_mode = world->ops->name,
                                  .device_kind = perf_devices()->kind,
                                  .no_gpu = perf_devices_reason(),
                                  .multi_rank_set = perf_devices_multi_rank(),
                                  .replays_wait = perf_replays_wait(world),
                                  .timed = world->coll->trips > 1 ? timed_trips : NULL,
                                  .fit_bytes = sweep->fit_bytes,
                                  .some_do_not_fit = sweep->too_large_bytes > 0};
    ncclGetVersion(&header.nccl_version);
    if (world->proc != 0) return;
    perf_report_lock();
    perf_report_header(&header);
    perf_report_unlock();
    int code = perf_baseline_check(&header, why, sizeof why);
    if (code != PERF_EXIT_OK) perf_end(code, why);
}

static void write_footer(const struct perf_world *world, int code)
{
    struct perf_footer *footer = perf_ending_footer();
    perf_report_lock();
    footer->status = perf_verdict_status(code);
    footer->leak_bytes = world->leak_bytes;
    if (world->proc == 0) {
        perf_ending_reports_off();
        perf_report_footer(footer);
    }
    perf_report_unlock();
}

static int run_world(struct perf_world *world)
{
    perf_world_open(world);
    choose_devices(world);
    perf_world_place(world);
    perf_watch_start(world);
    check_world(world);
    prepare_driver(world);
    load_baseline(world);
    if (world->proc == 0 && !world->options->preflight) {
        perf_report_on_failure(report_failed);
        perf_report_open(world->options);
        perf_ending_reports_on();
    }
    perf_world_init(world);
    int code;
    if (world->options->preflight) {
        code = perf_preflight(world);
    } else {
        struct perf_sweep sweep = {.world = world};
        perf_sweep_plan(&sweep);
        write_header(&sweep);
        code = perf_run(&sweep);
    }
    perf_world_fini(world);
    if (!world->options->preflight) write_footer(world, code);
    perf_world_barrier(world);
    perf_watch_stop();
    perf_world_close(world, code);
    return code;
}

int perf_main(const struct perf_coll *coll, int argc, char **argv)
{
    static struct perf_options options;
    static struct perf_world world;
    perf_options_parse(&options, coll, argc, argv);
    perf_ending_footer()->min_busbw_wanted = read_min_busbw();
    perf_devices_check();
    if (options.show_devices) {
        perf_devices_list();
        return PERF_EXIT_OK;
    }
    if (perf_selftest() != 0) return PERF_EXIT_WRONG;
    if (options.selftest_only) {
        printf("selftest: injected faults were seen\n");
        perf_show_contents(coll);
        return PERF_EXIT_OK;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    perf_signals_block(0);
    world.options = &options;
    world.coll = coll;
    int code = run_world(&world);
    perf_verify_drop();
    perf_baseline_drop();
    return code;
}
