/* Leftovers: what a process holds at a moment, as sorted lines of text that can be compared.
 * Used by the test framework around every case; a line that is new afterwards is a leak.
 * Invariant: taking a snapshot leaves nothing behind itself.
 */
#ifndef TEST_LEFTOVER_H
#define TEST_LEFTOVER_H

#include <stddef.h>
#include <sys/types.h>

struct test_snapshot {
    char **lines; /* sorted; "fd 5 -> socket:[17]", "thread 12 (name)", "map ...", "shm ...",
                     "socket @name", "child 7 (name)" */
    size_t nlines, capacity;
};

/* Open files, threads, shared mappings, names in /dev/shm, own abstract sockets, children. */
void test_snapshot_take(struct test_snapshot *snapshot);
void test_snapshot_free(struct test_snapshot *snapshot);

/* How many threads there were. */
size_t test_snapshot_threads(const struct test_snapshot *snapshot);

/* Calls `report` for each line that is left ("left: fd ...") and each file or mapping that is
 * gone ("gone: ..."), unless report is NULL. Returns how many there are. With `lasting` not NULL
 * only its lines can be gone: for a `before` that may hold what was about to end by itself. */
size_t test_snapshot_diff(const struct test_snapshot *before, const struct test_snapshot *after,
                          const struct test_snapshot *lasting,
                          void (*report)(const char *what, const char *line));

/* SIGKILLs and reaps the direct children of this process. */
void test_kill_children(void);

#endif
