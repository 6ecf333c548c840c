/* ncclConfig_t as a table: one row per integer field with the version that brought it, its range
 * and its default. Called by api_comm.c through ccl_config_read. Invariant: what leaves here holds
 * only fields that the header of the caller knew, or that a variable has set, each in its range.
 */
#include "api/config.h"

#include "base/err.h"
#include "base/log.h"
#include "base/param.h"

#include <pthread.h>
#include <string.h>
#include <strings.h>

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

/* ---- variables, which go before the caller's fields ---- */

static const char *const policies[] = {"DEFAULT", "EFFICIENCY", "ZERO"};
enum { NPOLICIES = sizeof policies / sizeof policies[0] };
_Static_assert(NCCL_CTA_POLICY_EFFICIENCY == 1 && NCCL_CTA_POLICY_ZERO == 2, "bits by index");

static int cta_policy = UNDEF;
static pthread_once_t policy_once = PTHREAD_ONCE_INIT;

/* The bits of a word, -1 when it is none. */
static int policy_bits(const char *word, size_t length)
{
    for (int i = 0; i < NPOLICIES; i++)
        if (strlen(policies[i]) == length && strncasecmp(policies[i], word, length) == 0)
            return i == 0 ? 0 : 1 << (i - 1);
    if (length == 1 && word[0] >= '0' && word[0] <= '3') return word[0] - '0';
    return -1;
}

static void read_policy(void)
{
    const char *text = ccl_param_text(CCL_PARAM_CTA_POLICY);
    int policy = 0;
    if (text == NULL) return;
    for (const char *word = text; policy >= 0; word++) {
        size_t length = strcspn(word, "|");
        int bits = policy_bits(word, length);
        policy = bits < 0 ? bits : policy | bits;
        word += length;
        if (*word == '\0') break;
    }
    if (policy >= 0)
        cta_policy = policy;
    else
        ccl_log(CCL_LOG_WARN, CCL_LOG_ENV,
                "NCCL_CTA_POLICY=%s is not of DEFAULT, EFFICIENCY, ZERO, joined by |, nor a number "
                "from 0 to 3; config.CTAPolicy holds",
                text);
}

/* The newer name's value goes before that of the older one; 0: neither is set. */
static int either(enum ccl_param newer, enum ccl_param older)
{
    int value = (int)ccl_param_int(newer);
    return value != 0 ? value : (int)ccl_param_int(older);
}

/* The narrower bounds win; where they cross, the most does. */
static void apply_variables(ncclConfig_t *config)
{
    int least = either(CCL_PARAM_MIN_CTAS, CCL_PARAM_MIN_NCHANNELS);
    int most = either(CCL_PARAM_MAX_CTAS, CCL_PARAM_MAX_NCHANNELS);
    pthread_once(&policy_once, read_policy);
    if (ccl_param_int(CCL_PARAM_COMM_BLOCKING) >= 0)
        config->blocking = (int)ccl_param_int(CCL_PARAM_COMM_BLOCKING);
    if (cta_policy != UNDEF) config->CTAPolicy = cta_policy;
    if (most != 0 && config->maxCTAs > most) config->maxCTAs = most;
    if (least != 0 && config->minCTAs < least) config->minCTAs = least;
    config->minCTAs = at_most(config->minCTAs, config->maxCTAs);
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
    apply_variables(&known);
    known.netName = known.commName = NCCL_CONFIG_UNDEF_PTR;
    args->config = known;
    args->caller_version = config == NULL ? 0 : config->version;
    return ncclSuccess;
}
