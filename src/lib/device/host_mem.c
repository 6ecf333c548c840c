/* Memory of host devices: RAM, 256-byte aligned, every block known by its address.
 *
 * Called through the device table. Blocks of a page or more come from the arena, which other
 * processes can map; without one, large blocks are mappings of their own, so that they go back to
 * the system when freed. Invariant: a block is in the table from alloc until free, so a pointer
 * that is no block is refused.
 */
#define _GNU_SOURCE
#include "device/host_engine.h"

#include "base/err.h"
#include "base/fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    ALIGN_BYTES = 256,
    MAP_FROM_BYTES = 1 << 20,
    NBUCKETS = 1024,
    PATH_BYTES = 512,
};

struct block {
    struct block *next;
    void *memory;
    size_t bytes;
    uint32_t arena; /* its number; 0: not from an arena */
    int is_mapped;
};

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *buckets[NBUCKETS];

static struct block **bucket_of(const void *memory)
{
    uintptr_t bits = (uintptr_t)memory / ALIGN_BYTES;
    return &buckets[(bits ^ bits >> 10 ^ bits >> 20) % NBUCKETS];
}

/* Value of `key` in /proc/meminfo, in bytes. */
static size_t read_meminfo(const char *key)
{
    FILE *file = fopen("/proc/meminfo", "re");
    if (file == NULL) return 0;
    char line[128];
    size_t bytes = 0, length = strlen(key);
    while (bytes == 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, length) == 0) bytes = strtoull(line + length, NULL, 10) * 1024;
    fclose(file);
    return bytes;
}

/* The number in a file of one line; SIZE_MAX when there is none ("max", no file). */
static size_t read_number(const char *path)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) return SIZE_MAX;
    char line[64] = "", *end = line;
    if (fgets(line, sizeof line, file) == NULL) line[0] = '\0';
    fclose(file);
    unsigned long long value = strtoull(line, &end, 10);
    return end == line ? SIZE_MAX : (size_t)value;
}

static void apply_limit(const char *folder, const char *const names[2], size_t *total,
                        size_t *free_)
{
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", folder, names[0]);
    size_t limit = read_number(path);
    if (limit >= *total) return;
    snprintf(path, sizeof path, "%s/%s", folder, names[1]);
    size_t used = read_number(path);
    size_t left = used == SIZE_MAX ? limit : used < limit ? limit - used : 0;
    *total = limit;
    if (left < *free_) *free_ = left;
}

/* Path of this process's control group of the second version, "" if unknown. */
static void find_group(char path[PATH_BYTES])
{
    char line[PATH_BYTES];
    path[0] = '\0';
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file == NULL) return;
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "0::", 3) == 0) snprintf(path, PATH_BYTES, "%s", line + 3);
    fclose(file);
    path[strcspn(path, "\n")] = '\0';
}

/* Memory of the host that this process may use, and how much of it is free now: the least of
 * what the system and its control groups (of either version) allow. */
void ccl_host_mem_count(size_t *total_bytes, size_t *free_bytes)
{
    static const char *const version1[2] = {"memory.limit_in_bytes", "memory.usage_in_bytes"};
    static const char *const version2[2] = {"memory.max", "memory.current"};
    char group[PATH_BYTES], folder[PATH_BYTES + 32];
    *total_bytes = read_meminfo("MemTotal:");
    *free_bytes = read_meminfo("MemAvailable:");
    find_group(group);
    snprintf(folder, sizeof folder, "/sys/fs/cgroup%s", group);
    apply_limit(folder, version2, total_bytes, free_bytes);
    apply_limit("/sys/fs/cgroup", version2, total_bytes, free_bytes);
    apply_limit("/sys/fs/cgroup/memory", version1, total_bytes, free_bytes);
}

static void *map_block(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void find_memory(struct block *block)
{
    block->memory = ccl_host_arena_take(block->bytes, &block->arena);
    if (block->memory != NULL) return;
    block->is_mapped = block->bytes >= MAP_FROM_BYTES;
    block->memory =
        block->is_mapped ? map_block(block->bytes) : aligned_alloc(ALIGN_BYTES, block->bytes);
}

static void drop_memory(const struct block *block)
{
    if (block->arena != 0)
        ccl_host_arena_give(block->memory, block->bytes, block->arena);
    else if (block->is_mapped)
        munmap(block->memory, block->bytes);
    else
        free(block->memory);
}

/* The system is asked for nothing but whether the pages are mapped. */
const char *ccl_host_mem_fault(int device, const void *memory, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)memory / page * page;
    uintptr_t end = (uintptr_t)memory + bytes;
    (void)device;
    if (end < first || msync((void *)first, end - first, MS_ASYNC) != 0) return "is not mapped";
    return NULL;
}

static ncclResult_t refuse_alloc(size_t bytes)
{
    size_t total_bytes, free_bytes;
    ccl_host_mem_count(&total_bytes, &free_bytes);
    return ccl_err(ncclSystemError,
                   "out of memory on host device %d: %zu bytes asked, %zu bytes free",
                   ccl_host_device(), bytes, free_bytes);
}

/* The system promises more than it has, and kills who takes it at its word; so a large block is
 * compared with what is free. */
static int is_too_large(size_t bytes)
{
    size_t total_bytes, free_bytes;
    if (bytes < MAP_FROM_BYTES) return 0;
    ccl_host_mem_count(&total_bytes, &free_bytes);
    return total_bytes > 0 && bytes > free_bytes;
}

ncclResult_t ccl_host_mem_alloc(void **memory, size_t bytes)
{
    if (memory == NULL) return ccl_err(ncclInvalidArgument, "alloc: memory is NULL");
    *memory = NULL;
    if (CCL_FAULT("device-alloc") || bytes > SIZE_MAX / 2 || is_too_large(bytes))
        return refuse_alloc(bytes);
    struct block *block = calloc(1, sizeof *block);
    if (block == NULL) return refuse_alloc(bytes);
    size_t rounded =
        bytes == 0 ? ALIGN_BYTES : (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    block->bytes = rounded;
    find_memory(block);
    if (block->memory == NULL) {
        free(block);
        return refuse_alloc(bytes);
    }
    pthread_mutex_lock(&table_lock);
    struct block **bucket = bucket_of(block->memory);
    block->next = *bucket;
    *bucket = block;
    pthread_mutex_unlock(&table_lock);
    *memory = block->memory;
    return ncclSuccess;
}

ncclResult_t ccl_host_mem_free(void *memory)
{
    if (memory == NULL) return ncclSuccess;
    pthread_mutex_lock(&table_lock);
    struct block **at = bucket_of(memory);
    while (*at != NULL && (*at)->memory != memory) at = &(*at)->next;
    struct block *block = *at;
    if (block != NULL) *at = block->next;
    pthread_mutex_unlock(&table_lock);
    if (block == NULL)
        return ccl_err(ncclInvalidArgument, "free: %p is no block of a host device", memory);
    drop_memory(block);
    free(block);
    return ncclSuccess;
}
