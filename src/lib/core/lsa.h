/* lsa.h: the team of ranks whose memory a rank reaches by load and store ("LSA").
 *
 * Two ranks reach each other on one host: in one executor; on host devices also in one process, or
 * where every process maps the arenas of all others; on several GPUs where all of them write to
 * each other's memory. The team is a block of s consecutive ranks, s the largest number that cuts
 * every run of such ranks evenly and divides NCCL_LSA_TEAM_SIZE, so that all teams are alike.
 */
#ifndef CCL_CORE_LSA_H
#define CCL_CORE_LSA_H

#include "core/core.h"

/* Of an initialised communicator; the same size on every rank. */
ncclTeam_t ccl_lsa_team(ncclComm_t comm);

#endif
