/* Usage errors: one line on stderr in the driver's name, exit code 2, nothing run.
 *
 * Called by the option parser and by whoever reads an environment variable of a driver.
 */
#ifndef PERF_USAGE_H
#define PERF_USAGE_H

enum perf_exit {
    PERF_EXIT_OK = 0,
    PERF_EXIT_WRONG = 1,   /* wrong data */
    PERF_EXIT_USAGE = 2,   /* options or environment */
    PERF_EXIT_ERROR = 3,   /* set-up or run-time error */
    PERF_EXIT_TIMEOUT = 4, /* no progress for -T seconds */
    PERF_EXIT_SLOW = 5,    /* slower than NCCL_TESTS_MIN_BW or --baseline asks */
    PERF_EXIT_COMPARE = 6, /* results cannot be compared */
    PERF_EXIT_SIGNAL = 128 /* + the signal's number */
};

/* "all_reduce_perf": the prefix of every message. Kept by reference. */
void perf_set_program(const char *name);
const char *perf_program(void);

/* Writes "all_reduce_perf: TEXT (try --help)" to stderr and ends the process with code 2. */
_Noreturn void perf_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes "all_reduce_perf: note: TEXT" to stderr. */
void perf_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
