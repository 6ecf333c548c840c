/* ncclConfig_t as a table: one row per integer field with the version that brought it, its range
 * and its default. Called by api_comm.c through ccl_config_read. Invariant: what leaves here holds
 * only fields that the header of the caller knew, each in its range.
 */
#include "api/config.h"

#include "base/err.h"
#include "base/param.h"

#include <string.h>

#define UNDEF NCCL_CONFIG_UNDEF_INT

struct field {
    const char *name;
    size_t offset;
    unsigned since; /* older callers have padding or nothing here */
    int low, high;
    int fallback; /* UNDEF: decided where it is used */
};

#define FIELD(name, since, low, high, fallback)                                                    \
    {                                                                                              \
#name, offsetof(ncclConfig_t, name), since, low, high, fallback                            \
    }

static const struct field fields[] = {
    FIELD(blocking, 21400, 0, 1, 1),
    FIELD(cgaClusterSize, 21700, 0, INT_MAX, UNDEF),
    FIELD(minCTAs, 21700, 1, INT_MAX, UNDEF),
    FIELD(maxCTAs, 21700, 1, INT_MAX, UNDEF),
    FIELD(splitShare, 21800, 0, 1, 0),
    FIELD(trafficClass, 22500, INT_MIN, INT_MAX, UNDEF),
    FIELD(collnetEnable, 22700, 0, 1, 0),
    FIELD(CTAPolicy, 22700, 0, 3, NCCL_CTA_POLICY_DEFAULT),
    FIELD(shrinkShare, 22700, 0, 1, 0),
    FIELD(nvlsCTAs, 22700, 1, INT_MAX, UNDEF),
    FIELD(nChannelsPerNetPeer, 22800, 1, 64, UNDEF),
    FIELD(nvlinkCentricSched, 22800, 0, 1, 0),
    FIELD(graphUsageMode, 22900, 0, 2, 2),
    FIELD(numRmaCtx, 22900, 0, INT_MAX, 1),
    FIELD(maxP2pPeers, 23000, 1, INT_MAX, UNDEF),
    FIELD(graphStreamOrdering, 23005, 0, 1, 1),
};

enum {
    NFIELDS = sizeof fields / sizeof fields[0],
    NET_NAME_SINCE = 21700,
    COMM_NAME_SINCE = 22700,
    CTAS_MAX = 1024, /* as many as pay */
};

static int *field_of(ncclConfig_t *config, const struct field *field)
{
    return (int *)(void *)((char *)config + field->offset);
}

/* Copies as much as both sides have. A struct of a newer header is cut: what it says beyond ours
 * cannot be honoured, as with an older library. */
static ncclResult_t take_known(const ncclConfig_t *from, const char *function, ncclConfig_t *to)
{
    if (from->magic != NCCL_API_MAGIC)
        return ccl_err(ncclInvalidArgument,
                       "%s: config magic 0x%x is not 0x%x: start from NCCL_CONFIG_INITIALIZER",
                       function, from->magic, NCCL_API_MAGIC);
    if (from->size < offsetof(ncclConfig_t, blocking))
        return ccl_err(ncclInvalidArgument, "%s: config size %zu is below %zu", function,
                       from->size, offsetof(ncclConfig_t, blocking));
    unsigned version = from->version;
    memcpy(to, from, from->size < sizeof *to ? from->size : sizeof *to);
    for (int i = 0; i < NFIELDS; i++)
        if (version < fields[i].since) *field_of(to, &fields[i]) = UNDEF;
    if (version < NET_NAME_SINCE) to->netName = NCCL_CONFIG_UNDEF_PTR;
    if (version < COMM_NAME_SINCE) to->commName = NCCL_CONFIG_UNDEF_PTR;
    to->size = sizeof *to;
    to->version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

static ncclResult_t check_ranges(ncclConfig_t *config, const char *function)
{
    for (int i = 0; i < NFIELDS; i++) {
        int value = *field_of(config, &fields[i]);
        if (value == UNDEF || (value >= fields[i].low && value <= fields[i].high)) continue;
        if (fields[i].high == INT_MAX)
            return ccl_err(ncclInvalidArgument, "%s: config.%s %d is below %d", function,
                           fields[i].name, value, fields[i].low);
        return ccl_err(ncclInvalidArgument, "%s: config.%s %d is not in [%d, %d]", function,
                       fields[i].name, value, fields[i].low, fields[i].high);
    }
    if (config->minCTAs != UNDEF && config->maxCTAs != UNDEF && config->minCTAs > config->maxCTAs)
        return ccl_err(ncclInvalidArgument, "%s: config.minCTAs %d exceeds config.maxCTAs %d",
                       function, config->minCTAs, config->maxCTAs);
    return ncclSuccess;
}

static int at_most(int value, int limit)
{
    return value < limit ? value : limit;
}

static void fill_defaults(ncclConfig_t *config)
{
    for (int i = 0; i < NFIELDS; i++) {
        int *value = field_of(config, &fields[i]);
        if (*value == UNDEF) *value = fields[i].fallback;
    }
    /* The bounds depend on each other: a single one that is given moves the other. */
    config->maxCTAs = config->maxCTAs == UNDEF ? CTAS_MAX : at_most(config->maxCTAs, CTAS_MAX);
    config->minCTAs = config->minCTAs == UNDEF ? 1 : at_most(config->minCTAs, config->maxCTAs);
}

/* Copies a text field; NULL and "" are both "not given". */
static ncclResult_t take_text(const char *text, const char *name, const char *function, char *to,
                              size_t bytes)
{
    size_t length = text == NULL ? 0 : strnlen(text, bytes);
    if (length == bytes)
        return ccl_err(ncclInvalidArgument, "%s: config.%s '%.*s...' is longer than %zu bytes",
                       function, name, (int)bytes - 1, text, bytes - 1);
    if (length > 0) memcpy(to, text, length);
    to[length] = '\0';
    return ncclSuccess;
}

ncclResult_t ccl_config_read(const ncclConfig_t *config, struct ccl_init_args *args)
{
    ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
    const char *function = args->function;
    if (config != NULL) TRY(take_known(config, function, &known));
    TRY(check_ranges(&known, function));
    TRY(take_text(known.netName, "netName", function, args->net_name, sizeof args->net_name));
    /* A communicator's name is only shown, so a long one is cut rather than refused. */
    args->comm_name[0] = '\0';
    if (known.commName != NULL)
        strncat(args->comm_name, known.commName, sizeof args->comm_name - 1);
    fill_defaults(&known);
    if (ccl_param_int(CCL_PARAM_COMM_BLOCKING) >= 0)
        known.blocking = (int)ccl_param_int(CCL_PARAM_COMM_BLOCKING);
    known.netName = known.commName = NCCL_CONFIG_UNDEF_PTR;
    args->config = known;
    args->caller_version = config == NULL ? 0 : config->version;
    return ncclSuccess;
}
