/* The table of the interface: every case of the conformance tests that names functions in its own
 * name ("wrong: ncclSend root_low") is a row about these. Counts rows and passes per function.
 * Used by conform_api.c; the functions are those of names.h.
 */
#ifndef CONFORM_TABLE_H
#define CONFORM_TABLE_H

#include "unit/test.h"

#include <stddef.h>

/* Takes the cases of the program, which stay in place. */
void table_open(const struct test_case *cases, size_t ncases);
/* A test_ended of the framework. */
void table_count(const struct test_case *test, int passed);
/* "# rows: …" for each function that had a case in this run, and a line of sums. */
void table_print(void);

#endif
