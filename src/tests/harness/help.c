/* Help texts from the option table: --help (at most 100 columns), the man page, the completion
 * and --version. Called by the option parser before anything is set up, so only what works
 * without a communicator may be asked of the library here.
 */
#define _GNU_SOURCE
#include "harness/help.h"

#include "harness/devices.h"
#include "harness/library.h"
#include "harness/usage.h"

#include "nccl.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COLUMNS = 100, HELP_COLUMN = 34, LINE_BYTES = 1024 };

static const char *const group_titles[] = {
#define PERF_GROUP(id, title) title,
#define PERF_OPTION(group, letter, name, kind, field, low, high, fallback, unit, argument, help)
#define PERF_VARIABLE(name, help)
#include "harness/option_table.h"
#undef PERF_GROUP
#undef PERF_OPTION
#undef PERF_VARIABLE
};

static const struct {
    const char *name, *help;
} variables[] = {
#define PERF_GROUP(id, title)
#define PERF_OPTION(group, letter, name, kind, field, low, high, fallback, unit, argument, help)
#define PERF_VARIABLE(name, help) {name, help},
#include "harness/option_table.h"
#undef PERF_GROUP
#undef PERF_OPTION
#undef PERF_VARIABLE
};
enum { NVARIABLES = sizeof variables / sizeof variables[0] };

/* %s is the driver. */
static const struct {
    const char *command, *help;
} examples[] = {
    {"%s -b 8 -e 64M -f 4 -g 8", "eight ranks in one process, sizes times four"},
    {"%s -b 1M -e 1M -d all -o all -t 4 -p 1", "every type and operator, a thread per rank"},
    {"%s --spawn 4 -b 8 -e 1M -f 2 -J out.json", "four processes without a launcher, JSON too"},
    {"mpirun -np 4 %s -b 8 -e 64M -f 2", "one rank in each MPI process"},
};
enum { NEXAMPLES = sizeof examples / sizeof examples[0] };

static const struct {
    const char *code, *help;
} exit_codes[] = {
    {"0", "fine"},
    {"1", "wrong data"},
    {"2", "usage: an option or a variable makes no sense; nothing was run"},
    {"3", "set-up or run-time error"},
    {"4", "timeout: no rank made progress for -T seconds"},
    {"5", "slower than NCCL_TESTS_MIN_BW or --baseline asks"},
    {"6", "results cannot be compared with those of --baseline"},
    {"128+n", "ended by signal n"},
};
enum { NEXITS = sizeof exit_codes / sizeof exit_codes[0] };

/* Prints text from `column` on, broken at blanks to at most COLUMNS, with the same indentation. */
static void print_wrapped(const char *text, int column)
{
    int room = COLUMNS - column;

    while ((int)strlen(text) > room) {
        int cut = room;

        while (cut > 0 && text[cut] != ' ') cut--;
        if (!cut) cut = room;
        printf("%.*s\n%*s", cut, text, column, "");
        text += cut;
        while (*text == ' ') text++;
    }
    printf("%s\n", text);
}

/* "-b, --minbytes SIZE" */
static void format_names(const struct perf_option *row, char *text, size_t text_bytes)
{
    char letter[8] = "    ";

    if (row->letter) snprintf(letter, sizeof letter, "-%c, ", row->letter);
    snprintf(text, text_bytes, "%s--%s%s%s", letter, row->name, *row->argument ? " " : "",
             row->argument);
}

/* The help text with unit and default in parentheses. */
static void format_help(const struct perf_option *row, char *text, size_t text_bytes)
{
    if (row->kind == PERF_KIND_FLAG)
        snprintf(text, text_bytes, "%s", row->help);
    else
        snprintf(text, text_bytes, "%s (%s%sdefault %s)", row->help, row->unit,
                 *row->unit ? ", " : "", row->fallback);
}

static void print_option(const struct perf_option *row)
{
    char names[LINE_BYTES], help[LINE_BYTES];

    format_names(row, names, sizeof names);
    format_help(row, help, sizeof help);
    printf("  %-*s", HELP_COLUMN - 2, names);
    if ((int)strlen(names) > HELP_COLUMN - 3) printf("\n%*s", HELP_COLUMN, "");
    print_wrapped(help, HELP_COLUMN);
}

static void print_pair(const char *name, const char *help, int column)
{
    printf("  %-*s", column - 2, name);
    if ((int)strlen(name) > column - 3) printf("\n%*s", column, "");
    print_wrapped(help, column);
}

static void show_help(const struct perf_coll *coll)
{
    const char *program = perf_program();

    printf("Usage: %s [options]\n\n", program);
    printf("Times and verifies nccl%s. busbw is algbw times %s for n ranks.\n", coll->title,
           coll->bus_formula);
    for (int group = 0; group < PERF_NGROUPS; group++) {
        printf("\n%s:\n", group_titles[group]);
        for (int i = 0; i < perf_noptions; i++)
            if ((int)perf_option_rows[i].group == group) print_option(&perf_option_rows[i]);
    }
    printf(
        "\nAn argument follows its option directly, after a blank, or after = (long form). Of an "
        "option\ngiven twice the last one counts.\n");
    printf("\nExamples:\n");
    for (int i = 0; i < NEXAMPLES; i++) {
        printf("  ");
        printf(examples[i].command, program);
        printf("\n      %s\n", examples[i].help);
    }
    printf("\nExit codes:\n");
    for (int i = 0; i < NEXITS; i++) print_pair(exit_codes[i].code, exit_codes[i].help, 10);
    printf("\nEnvironment:\n");
    for (int i = 0; i < NVARIABLES; i++)
        print_pair(variables[i].name, variables[i].help, HELP_COLUMN + 4);
}

/* Text for troff: a leading - is a minus, a backslash and a leading control character are not
 * commands. */
static void print_troff(const char *text)
{
    if (*text == '.' || *text == '\'') printf("\\&");
    for (; *text; text++) {
        if (*text == '-')
            printf("\\-");
        else if (*text == '\\')
            printf("\\e");
        else
            putchar(*text);
    }
}

static void print_troff_entry(const char *name, const char *help)
{
    printf(".TP\n.B ");
    print_troff(name);
    printf("\n");
    print_troff(help);
    printf("\n");
}

static void show_man_options(void)
{
    char names[LINE_BYTES], help[LINE_BYTES];

    for (int group = 0; group < PERF_NGROUPS; group++) {
        printf(".SS %s\n", group_titles[group]);
        for (int i = 0; i < perf_noptions; i++) {
            const struct perf_option *row = &perf_option_rows[i];

            if ((int)row->group != group) continue;
            format_names(row, names, sizeof names);
            format_help(row, help, sizeof help);
            print_troff_entry(names + strspn(names, " "), help);
        }
    }
}

static void show_man(const struct perf_coll *coll)
{
    const char *program = perf_program();

    printf(".TH \"%s\" 1 \"\" \"nccl %d.%d.%d\" \"User Commands\"\n", program, NCCL_MAJOR,
           NCCL_MINOR, NCCL_PATCH);
    printf(".SH NAME\n%s \\- time and verify nccl%s\n", program, coll->title);
    printf(".SH SYNOPSIS\n.B %s\n.RI [ options ]\n", program);
    printf(".SH DESCRIPTION\nRuns nccl%s on every rank over a series of sizes, compares the "
           "results bit for bit and prints one line a size: time, algorithm bandwidth, bus "
           "bandwidth and wrong elements, out of place and in place.\nbusbw is algbw times\n",
           coll->title);
    print_troff(coll->bus_formula);
    printf("\nfor n ranks.\n.SH OPTIONS\n");
    show_man_options();
    printf(".SH EXAMPLES\n");
    for (int i = 0; i < NEXAMPLES; i++) {
        char command[LINE_BYTES];

        snprintf(command, sizeof command, examples[i].command, program);
        print_troff_entry(command, examples[i].help);
    }
    printf(".SH \"EXIT STATUS\"\n");
    for (int i = 0; i < NEXITS; i++) print_troff_entry(exit_codes[i].code, exit_codes[i].help);
    printf(".SH ENVIRONMENT\n");
    for (int i = 0; i < NVARIABLES; i++) print_troff_entry(variables[i].name, variables[i].help);
}

/* The words that an option's argument can be, "" when it is free. */
static void print_choices(const struct perf_option *row)
{
    if (row->kind == PERF_KIND_OP)
        for (int i = 0; i < PERF_NOPS; i++) printf("%s ", perf_op_name(i));
    if (row->kind == PERF_KIND_TYPE)
        for (int i = 0; i < PERF_NTYPES; i++) printf("%s ", perf_type_name(i));
    if (row->kind == PERF_KIND_INIT)
        for (int i = PERF_INIT_AUTO; i <= PERF_INIT_SPAWN; i++)
            printf("%s ", perf_init_name((enum perf_init)i));
    if (row->kind == PERF_KIND_DEVICE)
        for (int i = PERF_DEVICE_AUTO; i <= PERF_DEVICE_HOST; i++)
            printf("%s ", perf_device_word(i));
    if (row->kind == PERF_KIND_OP || row->kind == PERF_KIND_TYPE || row->kind == PERF_KIND_ROOT)
        printf("all");
    if (row->kind == PERF_KIND_INT && row->high - row->low < 4)
        for (int64_t value = row->low; value <= row->high; value++) printf("%d ", (int)value);
}

static void show_completion(void)
{
    const char *program = perf_program();

    printf("# bash completion of %s\n_%s()\n{\n", program, program);
    printf("    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n");
    printf("    case $before in\n");
    for (int i = 0; i < perf_noptions; i++) {
        const struct perf_option *row = &perf_option_rows[i];

        if (row->kind == PERF_KIND_FLAG) continue;
        printf("    ");
        if (row->letter) printf("-%c|", row->letter);
        if (row->kind == PERF_KIND_TEXT) {
            printf("--%s) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n", row->name);
            continue;
        }
        printf("--%s) COMPREPLY=($(compgen -W '", row->name);
        print_choices(row);
        printf("' -- \"$word\")); return ;;\n");
    }
    printf("    esac\n    COMPREPLY=($(compgen -W '");
    for (int i = 0; i < perf_noptions; i++) {
        if (perf_option_rows[i].letter) printf("-%c ", perf_option_rows[i].letter);
        printf("--%s ", perf_option_rows[i].name);
    }
    printf("' -- \"$word\"))\n}\ncomplete -F _%s %s\n", program, program);
}

int perf_mpi_plugin_path(char *path, int path_bytes)
{
    static const char *const places[] = {"chorus_mpi.so", "../lib/chorus_mpi.so"};
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    char *slash;

    program[length < 0 ? 0 : length] = 0;
    slash = strrchr(program, '/');
    if (slash) slash[1] = 0;
    for (int i = 0; i < 2; i++) {
        snprintf(path, (size_t)path_bytes, "%s%s", slash ? program : "", places[i]);
        if (!access(path, R_OK)) return 1;
    }
    snprintf(path, (size_t)path_bytes, "%s%s", slash ? program : "", places[0]);
    return 0;
}

static void print_version_number(const char *what, int version)
{
    printf("  %-10s %d.%d.%d (%d)\n", what, version / 10000, version / 100 % 100, version % 100,
           version);
}

static void print_library(void)
{
    int version = 0;

    if (ncclGetVersion(&version) == ncclSuccess) print_version_number("library", version);
    printf("  %-10s %s\n", "file", perf_library_path());
    printf("  %-10s %s\n", "git", perf_library_hash());
}

static void print_devices(void)
{
    char why[LINE_BYTES];

    if (perf_devices_choose(0, why, sizeof why)) {
        printf("  %-10s none: %s\n", "devices", why);
        return;
    }
    printf("  %-10s %d, %s\n", "devices", perf_device_count(), perf_devices()->kind);
    if (*perf_devices_reason()) printf("  %-10s none: %s\n", "GPUs", perf_devices_reason());
}

void perf_show_contents(const struct perf_coll *coll)
{
    printf("  %-10s %s\n", "collective", coll->title);
    printf("  %-10s", "types");
    for (int i = 0; i < PERF_NTYPES; i++) printf(" %s", perf_type_name(i));
    printf("\n  %-10s", "operators");
    for (int i = 0; coll->flags & PERF_HAS_OP && i < PERF_NOPS; i++) printf(" %s", perf_op_name(i));
    printf("%s\n", coll->flags & PERF_HAS_OP ? "" : " none");
    print_devices();
    print_library();
}

static void show_version(void)
{
    char mpi[PATH_MAX];

    printf("%s\n", perf_program());
    print_version_number("header", NCCL_VERSION_CODE);
    print_library();
    print_devices();
    if (perf_mpi_plugin_path(mpi, sizeof mpi))
        printf("  %-10s %s\n", "MPI", mpi);
    else
        printf("  %-10s no plugin (%s is not there; make MPI=1 builds it)\n", "MPI", mpi);
}

void perf_show(enum perf_show what, const struct perf_coll *coll)
{
    switch (what) {
    case PERF_SHOW_HELP: show_help(coll); break;
    case PERF_SHOW_VERSION: show_version(); break;
    case PERF_SHOW_MAN: show_man(coll); break;
    case PERF_SHOW_COMPLETION: show_completion(); break;
    case PERF_RUN: break;
    }
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "%s: cannot write to stdout: %s\n", perf_program(), strerror(errno));
        exit(PERF_EXIT_ERROR);
    }
}
