/* zones.h: the memory in which executors on several GPUs, and their ranks, write to each other, and
 * the ends of their connections.
 *
 * Set up by core/comm_init.c in the order of the functions below, by the lowest rank of each
 * process, with an exchange of what each returns between them. Lives as long as the clique.
 */
#ifndef CCL_CORE_ZONES_H
#define CCL_CORE_ZONES_H

#include "core/clique.h"
#include "device/zone.h"
#include "kernel/cuda_conn.h"

/* Takes places for CTAs that wait. *nchannels, at most 255: what this process can do; the least of
 * all processes is for ccl_zones_size. ncclInvalidUsage when nothing is left on a GPU. */
ncclResult_t ccl_zones_begin(struct ccl_clique *clique, uint8_t *nchannels);
ncclResult_t ccl_zones_size(struct ccl_clique *clique, uint8_t nchannels);
/* Memory of GPUs, mapped by all. *link: the weakest link between two of them as this process sees
 * it, enum ccl_zone_link. After the processes are connected; a failure is no error but
 * CCL_LINK_NONE.
 */
ncclResult_t ccl_zones_connect(struct ccl_clique *clique, uint8_t *link);
/* Given the weakest link that any process told: where there is none, memory of the host instead.
 * Writes the ends of all connections. */
ncclResult_t ccl_zones_settle(struct ccl_clique *clique, uint8_t link);
/* All kernels of this process are done. Half-open is fine. */
void ccl_zones_close(struct ccl_clique *clique);

/* The weakest link, the strongest of all before it is known; CCL_LINK_NONE: through memory of the
 * host. */
enum ccl_zone_link ccl_zones_link(const struct ccl_clique *clique);

/* An end of a connection of an executor that this process leads, in memory of its device; NULL:
 * another process leads it. */
struct ccl_cuda_conn *ccl_zones_end(const struct ccl_exec *exec, const struct ccl_link *link,
                                    uint16_t channel, enum ccl_proto proto);

/* Messages of a rank of this process: the ends of all lanes to or from another rank. */
struct ccl_cuda_conn *ccl_zones_message(const struct ccl_clique *clique, int rank, int peer,
                                        int is_send);
/* Of the zone of an executor of this process; 0: another process made it. */
uint64_t ccl_zones_bytes(const struct ccl_exec *exec);
/* What a message is cut by. */
struct ccl_zones_lanes {
    uint16_t nlanes;
    uint32_t slot_bytes;
};
struct ccl_zones_lanes ccl_zones_lanes(const struct ccl_clique *clique);

#endif
