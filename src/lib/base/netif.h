/* Which network interface the bootstrap listens on: NCCL_SOCKET_IFNAME, NCCL_SOCKET_FAMILY. */
#ifndef CCL_BASE_NETIF_H
#define CCL_BASE_NETIF_H

#include "base/sock.h"

/* True when `name` is chosen by the list `spec`: comma-separated name prefixes; a leading "^"
 * excludes the listed ones, a leading "=" compares whole names ("^=" does both). */
int ccl_netif_match(const char *spec, const char *name);

/* AF_INET, AF_INET6, or AF_UNSPEC when NCCL_SOCKET_FAMILY is unset. */
int ccl_netif_family(void);

/* The address (port 0) of the best interface that is up: those that NCCL_SOCKET_IFNAME lists in its
 * order, else InfiniBand names before others, others before docker's, loopback only when alone.
 * ncclInvalidUsage naming variable and value when none is left. */
ncclResult_t ccl_netif_pick(union ccl_sock_addr *out);

#endif
