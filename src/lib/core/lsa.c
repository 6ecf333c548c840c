/* lsa.c: the size of the LSA team from who reaches whom. Reaching is an equivalence, so that
 * looking at neighbours is enough.
 */
#include "core/lsa.h"

#include "base/param.h"
#include "core/comm.h"
#include "core/zones.h"

static int reaches(const struct ccl_clique *clique, int a, int b)
{
    const struct ccl_topo *topo = clique->topo;
    const struct ccl_peer *peer = &topo->peers[a], *other = &topo->peers[b];
    if (peer->host_id != other->host_id || peer->is_gpu != other->is_gpu) return 0;
    if (topo->exec_of[a] == topo->exec_of[b]) return 1;
    if (peer->is_gpu) return ccl_zones_link(clique) != CCL_LINK_NONE;
    return topo->proc_of[a] == topo->proc_of[b] || clique->shares;
}

static int common_divisor(int a, int b)
{
    while (b != 0) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

ncclTeam_t ccl_lsa_team(ncclComm_t comm)
{
    int size = (int)ccl_param_int(CCL_PARAM_LSA_TEAM_SIZE), run = 1;
    for (int r = 1; r <= comm->nranks; r++) {
        if (r < comm->nranks && reaches(comm->clique, r - 1, r)) {
            run++;
            continue;
        }
        size = common_divisor(size, run);
        run = 1;
    }
    return (ncclTeam_t){.nRanks = size, .rank = comm->rank % size, .stride = 1};
}
