/* The differential program: the same misuse calls in one or two libraries that are given by path,
 * each in a process of its own, codes side by side. With a list of known differences it says
 * whether exactly these were seen. It is linked with no such library.
 */
#include "conform/differ.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SIDES = 2, LIMIT_S = 30, MOST_LIMIT_S = 3600, JOBS = 4, MOST_JOBS = 64 };

static const struct differ_rows *const tables[] = {&differ_other_rows, &differ_op_rows};

static struct {
    struct differ_side sides[MOST_SIDES];
    int nsides;
    const char *list_path, *only;
    unsigned limit_s, at_once;
    struct differ_list list;
    /* Of the rows: made in all libraries, of these with different outcomes, of these known. */
    size_t nrows, ncompared, ndiffer, nknown, nproblems;
} plan = {.limit_s = LIMIT_S, .at_once = JOBS};

static const char usage[] =
    "Usage: differ [--list FILE] [--only PART] [--limit SECONDS] [--jobs N] LIBRARY [LIBRARY]\n"
    "\n"
    "Calls functions of libnccl.so.2 wrongly, each call in a process of its own, and prints what\n"
    "each LIBRARY (a path) returns: a result code, \"signal N\", \"timeout\". Calls that need a\n"
    "device are left out where a library finds none.\n"
    "  --list FILE      differences that are known, docs/differences.md; without it none is. With\n"
    "                   one LIBRARY its column is compared\n"
    "  --only PART      only rows whose \"function case\" contains PART\n"
    "  --limit SECONDS  after which a call is a timeout (30)\n"
    "  --jobs N         calls at a time (4)\n"
    "Exit code 0: the differences are exactly the known ones; 1: they are not; 2: bad arguments.\n";

static int bad_argument(const char *text, const char *value)
{
    fprintf(stderr, "differ: %s '%s' (try --help)\n", text, value);
    return 2;
}

static int take_number(const char *option, const char *text, unsigned most, unsigned *number)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || value < 1 || value > most) {
        fprintf(stderr, "differ: %s is 1 to %u, not '%s' (try --help)\n", option, most, text);
        return 2;
    }
    *number = (unsigned)value;
    return 0;
}

static int take_option(const char *option, const char *value)
{
    static const char *const options[] = {"--list", "--only", "--limit", "--jobs"};
    size_t i = 0;
    while (i < 4 && strcmp(option, options[i]) != 0) i++;
    if (i == 4) return bad_argument("unknown option", option);
    if (value == NULL) return bad_argument("no value for", option);
    if (i == 2) return take_number(option, value, MOST_LIMIT_S, &plan.limit_s);
    if (i == 3) return take_number(option, value, MOST_JOBS, &plan.at_once);
    *(i == 0 ? &plan.list_path : &plan.only) = value;
    return 0;
}

static int parse(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        int code = 0;
        if (argv[i][0] == '-')
            code = take_option(argv[i], argv[i + 1]), i++;
        else if (plan.nsides == MOST_SIDES)
            code = bad_argument("one or two libraries; what is", argv[i]);
        else
            plan.sides[plan.nsides++].path = argv[i];
        if (code != 0) return code;
    }
    if (plan.nsides > 0) return 0;
    fprintf(stderr, "differ: which LIBRARY? (try --help)\n");
    return 2;
}

static int look(void)
{
    for (int i = 0; i < plan.nsides; i++) {
        struct differ_side *side = &plan.sides[i];
        /* Without a slash it would be looked for where the system keeps libraries. */
        char *path = realpath(side->path, NULL);
        if (path == NULL) return bad_argument("no such file:", side->path);
        side->path = path;
        differ_look(side, plan.limit_s);
        if (side->why[0] != '\0') return bad_argument("no library to call:", side->why);
        printf("%c: %s, version %d%s%s\n", 'A' + i, side->path, side->version,
               side->is_chorus ? ", Chorus" : "", side->has_device ? "" : ", no device");
    }
    return 0;
}

/* ---- rows ---- */

static struct differ_known *find_known(const struct differ_row *row)
{
    for (size_t i = 0; i < plan.list.nknown; i++) {
        struct differ_known *known = &plan.list.known[i];
        if (strcmp(known->function, row->function) == 0 && strcmp(known->name, row->name) == 0)
            return known;
    }
    return NULL;
}

/* Known differences are those between Chorus and another library. */
static int list_applies(void)
{
    return plan.nsides == 1 || plan.sides[0].is_chorus != plan.sides[1].is_chorus;
}

/* Every outcome is what the list says of its library. */
static int is_as_listed(const struct differ_known *known, const struct differ_job *jobs)
{
    for (int i = 0; i < plan.nsides; i++) {
        const char *wanted = plan.sides[i].is_chorus ? known->chorus : known->other;
        if (strcmp(jobs[i].outcome, wanted) != 0) return 0;
    }
    return 1;
}

/* The same row in all libraries. */
static const char *judge(const struct differ_job *jobs)
{
    struct differ_known *known = list_applies() ? find_known(jobs[0].row) : NULL;
    int same = plan.nsides == 1 || strcmp(jobs[0].outcome, jobs[1].outcome) == 0;
    if (known != NULL) known->was_met = 1;
    for (int i = 0; i < plan.nsides; i++)
        if (!jobs[i].was_called) return "not compared";
    plan.ncompared++;
    plan.ndiffer += !same;
    if (known != NULL && is_as_listed(known, jobs)) {
        plan.nknown++;
        return "known";
    }
    if (known == NULL && same) return "";
    plan.nproblems++;
    return known == NULL ? "DIFFERS, not listed" : "NOT AS LISTED";
}

static int is_wanted(const struct differ_row *row)
{
    char text[128];
    snprintf(text, sizeof text, "%s %s", row->function, row->name);
    return plan.only == NULL || strstr(text, plan.only) != NULL;
}

static struct differ_job *find_jobs(void)
{
    size_t room = (differ_other_rows.nrows + differ_op_rows.nrows) * (size_t)plan.nsides, n = 0;
    struct differ_job *jobs = calloc(room, sizeof *jobs);
    if (jobs == NULL) abort();
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (size_t r = 0; r < tables[t]->nrows; r++) {
            const struct differ_row *row = &tables[t]->rows[r];
            if (!is_wanted(row)) continue;
            plan.nrows++;
            for (int i = 0; i < plan.nsides; i++)
                jobs[n++] = (struct differ_job){.side = &plan.sides[i], .row = row};
        }
    return jobs;
}

static void print_row(const struct differ_job *jobs)
{
    printf("%-34s %-24s", jobs[0].row->function, jobs[0].row->name);
    for (int i = 0; i < plan.nsides; i++) printf(" %-11s", jobs[i].outcome);
    printf(" %s\n", judge(jobs));
}

/* A row that is listed but nowhere called would stay unnoticed for ever. */
static void look_for_strays(void)
{
    for (size_t i = 0; plan.only == NULL && list_applies() && i < plan.list.nknown; i++) {
        const struct differ_known *known = &plan.list.known[i];
        if (known->was_met) continue;
        printf("%-34s %-24s is listed in %s and no row\n", known->function, known->name,
               plan.list_path);
        plan.nproblems++;
    }
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(usage, stdout);
        return 0;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (parse(argc, argv) != 0) return 2;
    if (plan.list_path != NULL && differ_read(plan.list_path, &plan.list) != 0) return 2;
    if (look() != 0) return 2;
    static struct differ_job *jobs;
    jobs = find_jobs();
    if (plan.nrows == 0) return bad_argument("no row contains", plan.only);
    differ_run(jobs, plan.nrows * (size_t)plan.nsides, plan.at_once, plan.limit_s);
    for (size_t r = 0; r < plan.nrows; r++) print_row(&jobs[r * (size_t)plan.nsides]);
    look_for_strays();
    printf("%zu rows, %zu compared, %zu differ, %zu known, %zu problems\n", plan.nrows,
           plan.ncompared, plan.ndiffer, plan.nknown, plan.nproblems);
    return plan.nproblems != 0;
}
