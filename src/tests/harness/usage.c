/* Usage errors and notes of a driver. Called from any harness file before the run begins; a
 * message is written in one piece so that the lines of several processes do not mix.
 */
#include "harness/usage.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { MESSAGE_BYTES = 2048 };

static const char *program = "perf";

void perf_set_program(const char *name)
{
    program = name;
}

const char *perf_program(void)
{
    return program;
}

_Noreturn void perf_usage(const char *format, ...)
{
    char text[MESSAGE_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fflush(stdout);
    fprintf(stderr, "%s: %s (try --help)\n", program, text);
    exit(PERF_EXIT_USAGE);
}

void perf_note(const char *format, ...)
{
    char text[MESSAGE_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s: note: %s\n", program, text);
}
