/* Exit codes of a driver: their order of gravity and what the footer calls them, one table row
 * each. Called by whoever ends a run; codes above 128 stand for signals and have no row.
 */
#include "harness/verdict.h"

static const struct {
    int code;
    enum perf_status status;
} verdicts[] = {
    {PERF_EXIT_WRONG, PERF_FAILED}, {PERF_EXIT_USAGE, PERF_ERROR},
    {PERF_EXIT_ERROR, PERF_ERROR},  {PERF_EXIT_TIMEOUT, PERF_TIMEOUT},
    {PERF_EXIT_SLOW, PERF_FAILED},  {PERF_EXIT_COMPARE, PERF_ERROR},
    {PERF_EXIT_OK, PERF_PASSED},
};
enum { NVERDICTS = sizeof verdicts / sizeof verdicts[0] };

/* Row of a code: the first rows are the gravest. Signals come before the table. */
static int row_of(int code)
{
    if (code > PERF_EXIT_SIGNAL) return -1;
    for (int row = 0; row < NVERDICTS; row++)
        if (verdicts[row].code == code) return row;
    return 2; /* a code of somebody else counts as an error */
}

int perf_verdict_worse(int a, int b)
{
    return row_of(a) <= row_of(b) ? a : b;
}

enum perf_status perf_verdict_status(int code)
{
    int row = row_of(code);
    return row < 0 ? PERF_INTERRUPTED : verdicts[row].status;
}
