/* Reads /proc/self for everything that a test could leave behind. Private anonymous memory is
 * not looked at (the sanitizers do that); mappings that other processes could see are. */
#define _GNU_SOURCE
#include "unit/leftover.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE_BYTES = 512 };

/* Names that MPI runs of other programs put into /dev/shm. */
static const char *const foreign_shm[] = {"vader_segment", "sm_segment", "osc_",
                                          "ompi",          "open_mpi",   "ucx"};

static void add_line(struct test_snapshot *snapshot, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add_line(struct test_snapshot *snapshot, const char *format, ...)
{
    char text[LINE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (snapshot->nlines == snapshot->capacity) {
        snapshot->capacity = snapshot->capacity * 2 + 64;
        snapshot->lines = realloc(snapshot->lines, snapshot->capacity * sizeof(char *));
        if (snapshot->lines == NULL) abort();
    }
    snapshot->lines[snapshot->nlines] = strdup(text);
    if (snapshot->lines[snapshot->nlines++] == NULL) abort();
}

/* The first line of a small /proc file without its newline; "" when it is gone. */
static void read_first_line(const char *path, char *text, int bytes)
{
    text[0] = '\0';
    FILE *file = fopen(path, "re");
    if (file == NULL) return;
    if (fgets(text, bytes, file) == NULL) text[0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    fclose(file);
}

/* The driver of a GPU opens and starts what it needs when it needs it, for the process's life. It
 * takes shared memory of no name by this size, at an address that the size divides. */
static const char driver_files[] = "/dev/nvidia", driver_threads[] = "cuda";
enum { DRIVER_MAP_BYTES = 2 << 20 };

/* Returns whether this process has the driver's files open. */
static int add_fds(struct test_snapshot *snapshot)
{
    int has_driver = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL) return 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char target[LINE_BYTES / 2];
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == dirfd(dir)) continue;
        ssize_t length = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);
        target[length < 0 ? 0 : length] = '\0';
        if (strncmp(target, driver_files, strlen(driver_files)) == 0)
            has_driver = 1;
        else
            add_line(snapshot, "fd %s -> %s", entry->d_name, target);
    }
    closedir(dir);
    return has_driver;
}

static void add_threads(struct test_snapshot *snapshot)
{
    DIR *dir = opendir("/proc/self/task");
    if (dir == NULL) return;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[LINE_BYTES], name[64];
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        read_first_line(path, name, sizeof name);
        if (name[0] != '\0' && strncmp(name, driver_threads, strlen(driver_threads)) != 0)
            add_line(snapshot, "thread %s (%s)", entry->d_name, name);
    }
    closedir(dir);
}

static int is_driver_map(const char *range, const char *path)
{
    unsigned long from, to;
    return strcmp(path, "/dev/zero (deleted)") == 0 && sscanf(range, "%lx-%lx", &from, &to) == 2 &&
           to - from == DRIVER_MAP_BYTES && from % DRIVER_MAP_BYTES == 0;
}

static void add_maps(struct test_snapshot *snapshot, int has_driver)
{
    FILE *file = fopen("/proc/self/maps", "re");
    if (file == NULL) return;
    char text[LINE_BYTES * 2], range[64], path[LINE_BYTES];
    while (fgets(text, sizeof text, file) != NULL) {
        path[0] = '\0';
        if (sscanf(text, "%63s %*s %*s %*s %*s %511[^\n]", range, path) < 2) continue;
        if (has_driver && is_driver_map(range, path)) continue;
        if (strncmp(path, "/memfd:", 7) == 0 || strncmp(path, "/dev/shm/", 9) == 0 ||
            strncmp(path, "/dev/zero", 9) == 0 || strncmp(path, "/SYSV", 5) == 0 ||
            strstr(path, " (deleted)") != NULL)
            add_line(snapshot, "map %s %.400s", range, path);
    }
    fclose(file);
}

static int is_foreign_shm(const char *name)
{
    /* A test of the framework plants names; beside it, other programs run. */
    if (strncmp(name, "test-plant-", 11) == 0 && getenv("TEST_PLANTS") == NULL) return 1;
    for (size_t i = 0; i < sizeof foreign_shm / sizeof foreign_shm[0]; i++)
        if (strncmp(name, foreign_shm[i], strlen(foreign_shm[i])) == 0) return 1;
    return 0;
}

static void add_shm_names(struct test_snapshot *snapshot)
{
    DIR *dir = opendir("/dev/shm");
    if (dir == NULL) return;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.' && !is_foreign_shm(entry->d_name))
            add_line(snapshot, "shm /dev/shm/%s", entry->d_name);
    closedir(dir);
}

/* True when this process has the socket `inode` open, according to the fd lines so far. */
static int owns_socket(const struct test_snapshot *snapshot, const char *inode)
{
    char target[64];
    snprintf(target, sizeof target, "socket:[%.40s]", inode);
    for (size_t i = 0; i < snapshot->nlines; i++)
        if (strstr(snapshot->lines[i], target) != NULL) return 1;
    return 0;
}

static void add_abstract_sockets(struct test_snapshot *snapshot)
{
    FILE *file = fopen("/proc/net/unix", "re");
    if (file == NULL) return;
    char text[LINE_BYTES], inode[48], name[LINE_BYTES];
    while (fgets(text, sizeof text, file) != NULL) {
        if (sscanf(text, "%*s %*s %*s %*s %*s %*s %47s %511s", inode, name) < 2) continue;
        if (name[0] == '@' && owns_socket(snapshot, inode))
            add_line(snapshot, "socket %.400s", name);
    }
    fclose(file);
}

/* Calls `visit` for every process whose parent is this one, zombies included. */
static void for_children(void (*visit)(void *arg, pid_t pid, const char *name), void *arg)
{
    DIR *dir = opendir("/proc");
    if (dir == NULL) return;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[LINE_BYTES], text[LINE_BYTES];
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        read_first_line(path, text, sizeof text);
        char *open = strchr(text, '('), *close = strrchr(text, ')');
        int parent = 0;
        if (open == NULL || close == NULL) continue;
        *close = '\0';
        if (sscanf(close + 1, " %*c %d", &parent) != 1 || parent != (int)getpid()) continue;
        visit(arg, (pid_t)atoi(entry->d_name), open + 1);
    }
    closedir(dir);
}

static void add_child(void *snapshot, pid_t pid, const char *name)
{
    add_line(snapshot, "child %d (%s)", (int)pid, name);
}

static void kill_child(void *unused, pid_t pid, const char *name)
{
    (void)unused;
    (void)name;
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
}

void test_kill_children(void)
{
    for_children(kill_child, NULL);
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void test_snapshot_take(struct test_snapshot *snapshot)
{
    memset(snapshot, 0, sizeof *snapshot);
    /* Threads come first: one that is not seen has closed its files before they are looked at. */
    add_threads(snapshot);
    int has_driver = add_fds(snapshot);
    add_abstract_sockets(snapshot);
    add_maps(snapshot, has_driver);
    add_shm_names(snapshot);
    for_children(add_child, snapshot);
    qsort(snapshot->lines, snapshot->nlines, sizeof(char *), compare_lines);
}

void test_snapshot_free(struct test_snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->nlines; i++) free(snapshot->lines[i]);
    free(snapshot->lines);
    memset(snapshot, 0, sizeof *snapshot);
}

size_t test_snapshot_threads(const struct test_snapshot *snapshot)
{
    size_t found = 0;
    for (size_t i = 0; i < snapshot->nlines; i++)
        found += strncmp(snapshot->lines[i], "thread ", 7) == 0;
    return found;
}

/* Threads, children and names of others may end at any time; files and mappings may not. */
static int may_go(const struct test_snapshot *lasting, const char *line)
{
    if (strncmp(line, "fd ", 3) != 0 && strncmp(line, "map ", 4) != 0) return 1;
    if (lasting == NULL) return 0;
    return lasting->nlines == 0 ||
           bsearch(&line, lasting->lines, lasting->nlines, sizeof(char *), compare_lines) == NULL;
}

size_t test_snapshot_diff(const struct test_snapshot *before, const struct test_snapshot *after,
                          const struct test_snapshot *lasting,
                          void (*report)(const char *what, const char *line))
{
    size_t found = 0, b = 0, a = 0;
    while (b < before->nlines || a < after->nlines) {
        int order = 0;
        if (b == before->nlines)
            order = 1;
        else if (a == after->nlines)
            order = -1;
        else
            order = strcmp(before->lines[b], after->lines[a]);
        if (order == 0) {
            a++;
            b++;
            continue;
        }
        const char *line = order > 0 ? after->lines[a++] : before->lines[b++];
        if (order < 0 && may_go(lasting, line)) continue;
        found++;
        if (report != NULL) report(order > 0 ? "left" : "gone", line);
    }
    return found;
}
