/* links.c: a clique's links to the other processes: what is opened when a communicator is made, and
 * what comes over the mesh afterwards.
 */
#include "core/clique.h"

#include "base/alloc.h"
#include "base/err.h"
#include "boot/boot.h"
#include "core/agree.h"
#include "core/lead.h"
#include "core/reach.h"

#include <unistd.h>

static ncclResult_t check_reach(const struct ccl_clique *clique)
{
    const struct ccl_topo *topo = clique->topo;
    const struct ccl_peer *me = &topo->peers[topo->first_rank[clique->proc]];
    for (uint16_t p = 0; p < topo->nprocs; p++) {
        const struct ccl_peer *peer = &topo->peers[topo->first_rank[p]];
        int same_host = peer->host_id == me->host_id, reached = 0;
        for (int t = 0; t < CCL_NTRANSPORTS; t++)
            reached |= ccl_transports[t]->reach(p == clique->proc, same_host);
        if (!reached)
            return ccl_err(
                ncclInvalidUsage, "no transport reaches rank %d on host %s from rank %d on host %s",
                topo->first_rank[p], peer->host, topo->first_rank[clique->proc], me->host);
    }
    return ncclSuccess;
}

ncclResult_t ccl_clique_listen(struct ccl_clique *clique, struct ccl_boot *boot,
                               const _Atomic uint32_t *abort_word)
{
    if (ccl_clique_is_whole(clique)) return ncclSuccess;
    TRY(check_reach(clique));
    struct ccl_mesh_args args = {
        .nprocs = clique->topo->nprocs,
        .self = clique->proc,
        .first_rank = clique->topo->first_rank,
        .boot = boot,
        .abort_word = abort_word,
    };
    ccl_boot_secret(boot, args.secret);
    return ccl_mesh_listen(&args, &clique->mesh);
}

/* A process that leaves while an operation still needs it shows up as a wait without end, which
 * chorus_comm_status names; leaving after the last operation is the normal case. */
static void on_peer(void *context, int proc, ncclResult_t code, const char *text)
{
    struct ccl_clique *clique = context;
    if (code == ncclSuccess)
        __atomic_store_n(&clique->left[proc], 1, __ATOMIC_RELAXED);
    else
        ccl_clique_fail(clique, code, 0, "%s", text);
}

static void on_letter(void *context, int proc, const struct ccl_wire_letter *letter)
{
    struct ccl_clique *clique = context;
    const struct ccl_topo *topo = clique->topo;
    int is_ours = letter->from < topo->nranks && letter->to < topo->nranks &&
                  topo->proc_of[letter->from] == proc && topo->proc_of[letter->to] == clique->proc;
    if (is_ours) ccl_letters_take(&clique->letters, letter);
}

static void on_over(void *context, int proc, int died)
{
    ccl_letters_end(context, proc, died);
}

ncclResult_t ccl_clique_swap(struct ccl_clique *clique, int fd,
                             ncclResult_t (*take)(struct ccl_clique *, int proc, int fd))
{
    int nprocs = clique->topo->nprocs;
    int *fds;
    TRY(CCL_NEW(&fds, (size_t)nprocs));
    ncclResult_t rc = ccl_mesh_swap_fd(clique->mesh, fd, fds);
    for (int p = 0; rc == ncclSuccess && p < nprocs; p++)
        if (p != clique->proc) rc = take(clique, p, fds[p]);
    for (int p = 0; p < nprocs; p++)
        if (p != clique->proc && fds[p] > 0) close(fds[p]);
    ccl_free(fds);
    return rc;
}

static ncclResult_t take_segment(struct ccl_clique *clique, int proc, int fd)
{
    for (int t = 0; t < CCL_NTRANSPORTS; t++)
        if (ccl_transports[t]->attach != NULL)
            TRY(ccl_transports[t]->attach(clique->transports[t], proc, fd));
    return ncclSuccess;
}

static ncclResult_t take_bell(struct ccl_clique *clique, int proc, int fd)
{
    return ccl_bell_map(fd, &clique->bells[proc]);
}

ncclResult_t ccl_clique_connect(struct ccl_clique *clique)
{
    if (ccl_clique_is_whole(clique)) return ncclSuccess;
    struct ccl_arena arena;
    ccl_device()->arena(&arena);
    TRY(ccl_mesh_connect(clique->mesh));
    for (int t = 0; t < CCL_NTRANSPORTS; t++)
        if (ccl_transports[t]->share != NULL) {
            int fd = ccl_transports[t]->share(clique->transports[t]);
            TRY(ccl_clique_swap(clique, fd, take_segment));
            TRY(ccl_reach_meet(clique, ccl_transports[t]->common(clique->transports[t])));
        }
    for (uint16_t e = 0; e < clique->topo->nexecs; e++)
        for (int t = 0; t < CCL_NTRANSPORTS; t++)
            if (ccl_transports[t]->board != NULL)
                ccl_clique_set_board(clique, e, ccl_transports[t]->board(clique->transports[t], e));
    if (ccl_bell_self_fd() < 0)
        return ccl_err(ncclSystemError, "no memfd for the doorbell of this process");
    TRY(ccl_clique_swap(clique, ccl_bell_self_fd(), take_bell));
    if (ccl_reach_has_arenas(clique)) {
        TRY(ccl_clique_swap(clique, arena.fd, ccl_reach_take));
        ccl_reach_tell(clique);
    }
    return ccl_lead_connect(clique);
}

ncclResult_t ccl_clique_watch(struct ccl_clique *clique)
{
    static const struct ccl_mesh_events events = {
        .fate = on_peer, .letter = on_letter, .over = on_over};
    return ccl_clique_is_whole(clique) ? ncclSuccess
                                       : ccl_mesh_watch(clique->mesh, &events, clique);
}
