/* Interface choice over getifaddrs(3). Called by boot when it makes an id. Each address gets a
 * score, the lowest wins, so the order of preference is written in one place. */
#define _GNU_SOURCE
#include "base/netif.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/param.h"

#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

enum {
    SCORE_LISTED = 0, /* plus the place in the list */
    SCORE_IB = 1000,
    SCORE_OTHER = 2000,
    SCORE_DOCKER = 3000,
    SCORE_LOOPBACK = 4000,
    SCORE_LINK_LOCAL = 400, /* added: needs a scope that means nothing elsewhere */
    SCORE_V6 = 200          /* added: IPv4 first when both are there */
};

static int starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Place of `name` in a list of names or prefixes, -1 when it is not there. */
static int list_place(const char *list, int whole, const char *name)
{
    for (int place = 0;; place++) {
        size_t length = strcspn(list, ",");
        int fits = strncmp(list, name, length) == 0 && (!whole || name[length] == '\0');
        if (length > 0 && fits) return place;
        if (list[length] == '\0') return -1;
        list += length + 1;
    }
}

/* Score of a name under a spec; INT_MAX when it is not chosen. */
static int spec_score(const char *spec, const char *name)
{
    int exclude = *spec == '^';
    if (exclude) spec++;
    int whole = *spec == '=';
    if (whole) spec++;
    int place = list_place(spec, whole, name);
    if (exclude) return place >= 0 ? INT_MAX : SCORE_OTHER;
    return place >= 0 ? SCORE_LISTED + place : INT_MAX;
}

int ccl_netif_match(const char *spec, const char *name)
{
    return spec_score(spec, name) != INT_MAX;
}

int ccl_netif_family(void)
{
    const char *text = ccl_param_text(CCL_PARAM_SOCKET_FAMILY);
    if (text == NULL) return AF_UNSPEC;
    if (strcmp(text, "AF_INET") == 0) return AF_INET;
    if (strcmp(text, "AF_INET6") == 0) return AF_INET6;
    ccl_log(CCL_LOG_WARN, CCL_LOG_ENV, "NCCL_SOCKET_FAMILY=%s is neither AF_INET nor AF_INET6",
            text);
    return AF_UNSPEC;
}

static int own_score(const struct ifaddrs *item)
{
    if (item->ifa_flags & IFF_LOOPBACK) return SCORE_LOOPBACK;
    if (starts_with(item->ifa_name, "docker")) return SCORE_DOCKER;
    return starts_with(item->ifa_name, "ib") ? SCORE_IB : SCORE_OTHER;
}

static int score_item(const struct ifaddrs *item, const char *spec, int family)
{
    if (item->ifa_addr == NULL || (item->ifa_flags & IFF_UP) == 0) return INT_MAX;
    int own_family = item->ifa_addr->sa_family;
    if (own_family != AF_INET && own_family != AF_INET6) return INT_MAX;
    if (family != AF_UNSPEC && family != own_family) return INT_MAX;
    int score = own_score(item);
    if (spec != NULL) {
        int listed = spec_score(spec, item->ifa_name);
        if (listed == INT_MAX) return INT_MAX;
        if (listed < SCORE_IB) score = listed;
    }
    if (own_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)item->ifa_addr;
        score += SCORE_V6 + (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) ? SCORE_LINK_LOCAL : 0);
    }
    return score;
}

static void list_names(const struct ifaddrs *all, char *out, size_t out_bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (const struct ifaddrs *item = all; item != NULL; item = item->ifa_next) {
        if (item->ifa_addr == NULL || item->ifa_addr->sa_family == AF_PACKET) continue;
        int more = snprintf(out + used, out_bytes - used, "%s%s%s", used > 0 ? ", " : "",
                            item->ifa_name, item->ifa_flags & IFF_UP ? "" : " (down)");
        if (more < 0 || (size_t)more >= out_bytes - used) break;
        used += (size_t)more;
    }
}

static ncclResult_t refuse_all(const struct ifaddrs *all, const char *spec)
{
    char names[256];
    const char *family = ccl_param_text(CCL_PARAM_SOCKET_FAMILY);
    list_names(all, names, sizeof names);
    return ccl_err(ncclInvalidUsage,
                   "no usable network interface (NCCL_SOCKET_IFNAME=%s NCCL_SOCKET_FAMILY=%s; "
                   "there are: %s)",
                   spec == NULL ? "" : spec, family == NULL ? "" : family,
                   names[0] == '\0' ? "none" : names);
}

ncclResult_t ccl_netif_pick(union ccl_sock_addr *out)
{
    struct ifaddrs *all = NULL;
    if (CCL_FAULT("boot-ifaddrs") || getifaddrs(&all) != 0)
        return ccl_err(ncclSystemError, "getifaddrs: %s", strerror(errno));
    const char *spec = ccl_param_text(CCL_PARAM_SOCKET_IFNAME);
    int family = ccl_netif_family();
    const struct ifaddrs *best = NULL;
    int best_score = INT_MAX;
    for (const struct ifaddrs *item = all; item != NULL; item = item->ifa_next) {
        int score = score_item(item, spec, family);
        if (score < best_score) {
            best_score = score;
            best = item;
        }
    }
    ncclResult_t rc = ncclSuccess;
    if (best == NULL) {
        rc = refuse_all(all, spec);
    } else {
        memset(out, 0, sizeof *out);
        memcpy(out, best->ifa_addr,
               best->ifa_addr->sa_family == AF_INET6 ? sizeof out->v6 : sizeof out->v4);
        CCL_INFO(CCL_LOG_BOOTSTRAP, "bootstrap uses interface %s", best->ifa_name);
    }
    freeifaddrs(all);
    return rc;
}
