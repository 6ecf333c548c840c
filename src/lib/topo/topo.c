/* topo.c: grouping ranks by process and device, and the identity of this process and host. */
#include "topo/topo.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/param.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++) hash = (hash ^ (uint8_t)*text) * 0x100000001b3u;
    return hash;
}

/* The first line of a file, empty where there is no such file. Without descriptors the ranks of a
 * process would look like strangers to each other, so that is an error. */
static ncclResult_t read_line(const char *path, char *text, size_t bytes)
{
    text[0] = '\0';
    FILE *file = fopen(path, "re");
    if (file == NULL && errno != ENOENT && errno != EACCES)
        return ccl_err(ncclSystemError, "opening %s: %s", path, strerror(errno));
    if (file == NULL) return ncclSuccess;
    if (fgets(text, (int)bytes, file) == NULL) text[0] = '\0';
    fclose(file);
    text[strcspn(text, "\n")] = '\0';
    return ncclSuccess;
}

/* Host name and boot id, or what NCCL_HOSTID says instead. */
static ncclResult_t host_identity(const char *host, uint64_t *identity)
{
    const char *replaced = ccl_param_text(CCL_PARAM_HOSTID);
    *identity = hash_text(0xcbf29ce484222325u, replaced != NULL ? replaced : host);
    if (replaced != NULL) return ncclSuccess;
    char boot_id[64];
    TRY(read_line("/proc/sys/kernel/random/boot_id", boot_id, sizeof boot_id));
    *identity = hash_text(*identity, boot_id);
    return ncclSuccess;
}

/* Field 22 of /proc/self/stat; the name in field 2 may hold spaces, so count from its end. */
static ncclResult_t process_start_time(uint64_t *start_time)
{
    char line[1024];
    TRY(read_line("/proc/self/stat", line, sizeof line));
    char *at = strrchr(line, ')');
    for (int field = 2; at != NULL && field < 22; field++) at = strchr(at + 1, ' ');
    *start_time = at == NULL ? 0 : strtoull(at + 1, NULL, 10);
    return ncclSuccess;
}

ncclResult_t ccl_topo_describe(struct ccl_peer *peer)
{
    if (gethostname(peer->host, sizeof peer->host - 1) != 0)
        return ccl_err(ncclSystemError, "gethostname failed");
    peer->pid = getpid();
    TRY(host_identity(peer->host, &peer->host_id));
    return process_start_time(&peer->start_time);
}

static int same_proc(const struct ccl_peer *a, const struct ccl_peer *b)
{
    return a->host_id == b->host_id && a->pid == b->pid && a->start_time == b->start_time;
}

/* A GPU is one device in whatever process. */
static int same_device(const struct ccl_peer *a, const struct ccl_peer *b)
{
    int meets = a->is_gpu ? a->host_id == b->host_id : same_proc(a, b);
    return meets && strncmp(a->identity, b->identity, sizeof a->identity) == 0;
}

static int same_exec(const struct ccl_peer *a, const struct ccl_peer *b)
{
    return a->part == b->part && same_device(a, b);
}

/* CHORUS_GPU_SPLIT: ranks of a GPU as if they were on several. All processes see the same. */
static void split_devices(struct ccl_topo *topo)
{
    for (int r = 0; r < topo->nranks; r++) {
        struct ccl_peer *peer = &topo->peers[r];
        int before = 0;
        peer->part = 0;
        if (!peer->is_gpu || peer->split == 0) continue;
        for (int q = 0; q < r; q++) before += same_device(&topo->peers[q], peer);
        peer->part = before / peer->split;
    }
}

/* Numbers the groups of equal peers by their lowest rank; returns how many there are. */
static uint16_t number_groups(const struct ccl_topo *topo, uint16_t *group_of,
                              int (*same)(const struct ccl_peer *, const struct ccl_peer *))
{
    uint16_t ngroups = 0;
    for (int r = 0; r < topo->nranks; r++) {
        int first = 0;
        while (!same(&topo->peers[first], &topo->peers[r])) first++;
        group_of[r] = first == r ? ngroups++ : group_of[first];
    }
    return ngroups;
}

static void sort_slots(struct ccl_topo *topo)
{
    uint16_t slot = 0;
    for (uint16_t e = 0; e < topo->nexecs; e++) {
        topo->first_slot[e] = slot;
        for (uint16_t r = 0; r < topo->nranks; r++)
            if (topo->exec_of[r] == e) {
                topo->rank_of[slot] = r;
                topo->slot_of[r] = slot++;
            }
    }
    topo->first_slot[topo->nexecs] = slot;
}

static ncclResult_t fill_topo(struct ccl_topo *topo)
{
    uint16_t *proc_of = topo->proc_of;
    topo->nexecs = number_groups(topo, topo->exec_of, same_exec);
    topo->nprocs = number_groups(topo, proc_of, same_proc);
    TRY(CCL_NEW(&topo->first_slot, topo->nexecs + 1u));
    TRY(CCL_NEW(&topo->proc_of_exec, topo->nexecs));
    TRY(CCL_NEW(&topo->first_rank, topo->nprocs));
    sort_slots(topo);
    for (int r = topo->nranks - 1; r >= 0; r--) {
        topo->proc_of_exec[topo->exec_of[r]] = proc_of[r];
        topo->first_rank[proc_of[r]] = r;
    }
    return ncclSuccess;
}

ncclResult_t ccl_topo_build(const struct ccl_peer *peers, int nranks, struct ccl_topo **out)
{
    ncclResult_t rc;
    struct ccl_topo *topo;
    TRY(CCL_NEW(&topo, 1));
    topo->nranks = (uint16_t)nranks;
    TRY_GOTO(rc, CCL_NEW(&topo->peers, (size_t)nranks), fail);
    memcpy(topo->peers, peers, (size_t)nranks * sizeof *peers);
    split_devices(topo);
    TRY_GOTO(rc, CCL_NEW(&topo->rank_of, (size_t)nranks), fail);
    TRY_GOTO(rc, CCL_NEW(&topo->slot_of, (size_t)nranks), fail);
    TRY_GOTO(rc, CCL_NEW(&topo->exec_of, (size_t)nranks), fail);
    TRY_GOTO(rc, CCL_NEW(&topo->proc_of, (size_t)nranks), fail);
    TRY_GOTO(rc, fill_topo(topo), fail);
    *out = topo;
    return ncclSuccess;
fail:
    ccl_topo_free(topo);
    return rc;
}

void ccl_topo_free(struct ccl_topo *topo)
{
    if (topo == NULL) return;
    ccl_free(topo->peers);
    ccl_free(topo->rank_of);
    ccl_free(topo->slot_of);
    ccl_free(topo->first_slot);
    ccl_free(topo->exec_of);
    ccl_free(topo->proc_of);
    ccl_free(topo->proc_of_exec);
    ccl_free(topo->first_rank);
    ccl_free(topo);
}

void ccl_topo_list(const uint8_t *in, int nranks, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int r = 0; r < nranks && used + 1 < bytes; r++) {
        if (!in[r]) continue;
        int wrote = snprintf(text + used, bytes - used, used > 0 ? ",%d" : "%d", r);
        used += (size_t)wrote;
    }
    if (used == 0) snprintf(text, bytes, "none");
}

void ccl_topo_list_exec(const struct ccl_topo *topo, uint16_t exec, char *text, size_t bytes)
{
    uint8_t in[UINT16_MAX + 1] = {0};
    for (int r = 0; r < topo->nranks; r++) in[r] = topo->exec_of[r] == exec;
    ccl_topo_list(in, topo->nranks, text, bytes);
}
