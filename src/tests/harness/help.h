/* What a driver tells about itself: --help, --man, --completion, --version. Called by the option
 * parser; everything goes to stdout.
 */
#ifndef PERF_HELP_H
#define PERF_HELP_H

#include "harness/coll.h"
#include "harness/options.h"

/* Prints one of them. A failed write ends the process with code 3. */
void perf_show(enum perf_show what, const struct perf_coll *coll);

/* --selftest: which collective, types, operators, devices and library this program holds. */
void perf_show_contents(const struct perf_coll *coll);

/* 1 when the MPI plugin lies beside the program or in ../lib, in this order; its path, or where it
 * should be, in `path`. The only search for it. */
int perf_mpi_plugin_path(char *path, int path_bytes);

#endif
