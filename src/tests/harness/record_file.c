/* The file of -J, see record_file.h. Called in the process of rank 0; not thread-safe.
 *
 * Invariant: [0, tail_at) holds parts, from tail_at on stands the tail that `tail` remembers.
 */
#define _GNU_SOURCE
#include "harness/record_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FILES = 100000 };

static struct {
    int fd; /* valid while name is set */
    char name[PATH_MAX];
    off_t tail_at;
    char *tail; /* what stands in the file from tail_at on */
    size_t tail_bytes;
} file = {.fd = -1};

const char *perf_record_name(void)
{
    return file.fd >= 0 ? file.name : NULL;
}

/* Writes all of it at an offset. Returns 0 or an errno. */
static int write_all(const char *text, size_t bytes, off_t at)
{
    while (bytes) {
        ssize_t wrote = pwrite(file.fd, text, bytes, at);

        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return wrote ? errno : ENOSPC;
        text += wrote;
        at += wrote;
        bytes -= (size_t)wrote;
    }
    return 0;
}

/* What can be done on a full disk. */
static void restore_tail(void)
{
    if (!file.tail) return;
    if (!write_all(file.tail, file.tail_bytes, file.tail_at) &&
        ftruncate(file.fd, file.tail_at + (off_t)file.tail_bytes))
        return;
}

int perf_record_append(struct perf_json *part, struct perf_json *tail)
{
    size_t part_bytes = part->used, used;
    int error;

    perf_json_raw(tail, tail->used ? "\n" : "");
    used = tail->used;
    while (!tail->failed && part_bytes + tail->used < file.tail_bytes) perf_json_raw(tail, " ");
    if (tail->text) perf_json_raw(part, tail->text);
    error = part->failed || tail->failed ? ENOMEM : 0;
    if (!error && part->text) error = write_all(part->text, part->used, file.tail_at);
    if (error) {
        restore_tail();
        perf_json_free(tail);
    } else {
        file.tail_at += (off_t)part_bytes;
        free(file.tail);
        file.tail = tail->text;
        file.tail_bytes = used;
        /* Until here the blanks stood where a longer tail did. */
        if (ftruncate(file.fd, file.tail_at + (off_t)used)) error = errno;
    }
    perf_json_free(part);
    return error;
}

int perf_record_patch(const char *text, off_t at)
{
    return write_all(text, strlen(text), at);
}

int perf_record_create(const char *wanted)
{
    for (int i = -1; i < MAX_FILES; i++) {
        int length = i < 0 ? snprintf(file.name, sizeof file.name, "%s", wanted)
                           : snprintf(file.name, sizeof file.name, "%s.%d", wanted, i);

        if (length < 0 || (size_t)length >= sizeof file.name) return ENAMETOOLONG;
        file.fd = open(file.name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file.fd >= 0) return 0;
        if (errno != EEXIST) return errno;
    }
    return EEXIST;
}

int perf_record_close(void)
{
    int error = close(file.fd) ? errno : 0;

    free(file.tail);
    memset(&file, 0, sizeof file);
    file.fd = -1;
    return error;
}
