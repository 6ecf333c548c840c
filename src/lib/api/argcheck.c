/* The argument rules as a table (call_rules): what each call has, checked in one order. Called by
 * the api_*.c files. A check looks only at what earlier ones have found good: the root is compared
 * with the size of a communicator that is known to live.
 */
#include "api/argcheck.h"

#include "base/err.h"
#include "base/log.h"
#include "base/param.h"
#include "device/device.h"

#include <pthread.h>
#include <strings.h>

#include <string.h>

/* On which ranks a buffer is used. */
enum use { USED, AT_ROOT, UNUSED };

struct call_rule {
    const char *function;
    enum ccl_coll coll;
    const char *root_name; /* NULL where there is neither root nor peer */
    int reduces;           /* has an operator */
    int per_rank;          /* one side of the call holds count elements of every rank */
    enum use in_use, out_use;
    const char *in_name, *out_name;
};

#define SIDES "sendbuff", "recvbuff"

static const struct call_rule call_rules[CCL_NCALLS] = {
    [CCL_CALL_ALL_REDUCE] = {"ncclAllReduce", CCL_ALL_REDUCE, NULL, 1, 0, USED, USED, SIDES},
    [CCL_CALL_REDUCE] = {"ncclReduce", CCL_REDUCE, "root", 1, 0, USED, AT_ROOT, SIDES},
    [CCL_CALL_BROADCAST] = {"ncclBroadcast", CCL_BROADCAST, "root", 0, 0, AT_ROOT, USED, SIDES},
    [CCL_CALL_BCAST] = {"ncclBcast", CCL_BROADCAST, "root", 0, 0, AT_ROOT, USED, "buff", "buff"},
    [CCL_CALL_ALL_GATHER] = {"ncclAllGather", CCL_ALL_GATHER, NULL, 0, 1, USED, USED, SIDES},
    [CCL_CALL_REDUCE_SCATTER] = {"ncclReduceScatter", CCL_REDUCE_SCATTER, NULL, 1, 1, USED, USED,
                                 SIDES},
    [CCL_CALL_ALL_TO_ALL] = {"ncclAlltoAll", CCL_ALL_TO_ALL, NULL, 0, 1, USED, USED, SIDES},
    [CCL_CALL_GATHER] = {"ncclGather", CCL_GATHER, "root", 0, 1, USED, AT_ROOT, SIDES},
    [CCL_CALL_SCATTER] = {"ncclScatter", CCL_SCATTER, "root", 0, 1, AT_ROOT, USED, SIDES},
    [CCL_CALL_SEND] = {"ncclSend", CCL_SEND, "peer", 0, 0, USED, UNUSED, SIDES},
    [CCL_CALL_RECV] = {"ncclRecv", CCL_RECV, "peer", 0, 0, UNUSED, USED, SIDES},
};

const char *ccl_call_name(enum ccl_call call)
{
    return call_rules[call].function;
}

ncclResult_t ccl_argcheck_pointer(const void *pointer, const char *function, const char *argument)
{
    if (pointer != NULL) return ncclSuccess;
    return ccl_err(ncclInvalidArgument, "%s: %s is NULL", function, argument);
}

ncclResult_t ccl_argcheck_id(const ncclUniqueId *id, const char *function, const char *argument)
{
    static const ncclUniqueId zero;
    if (memcmp(id, &zero, sizeof zero) != 0) return ncclSuccess;
    return ccl_err(ncclInvalidArgument, "%s: %s is all zero bytes, not an id from ncclGetUniqueId",
                   function, argument);
}

ncclResult_t ccl_argcheck_ready(ncclComm_t comm, const char *function)
{
    TRY(ccl_comm_check(comm, function));
    return ccl_comm_ready(comm, function);
}

ncclResult_t ccl_argcheck_type(ncclDataType_t type, const char *function)
{
    if ((int)type >= 0 && type < ncclNumTypes) return ncclSuccess;
    return ccl_err(ncclInvalidArgument, "%s: datatype %d is not in [0, %d)", function, (int)type,
                   (int)ncclNumTypes);
}

static ncclResult_t check_ready(const struct call_rule *rule, const struct ccl_op *op)
{
    return ccl_argcheck_ready(op->comm, rule->function);
}

static ncclResult_t check_root(const struct call_rule *rule, const struct ccl_op *op)
{
    if (rule->root_name == NULL) return ncclSuccess;
    int nranks = ccl_comm_nranks(op->comm);
    if (op->root >= 0 && op->root < nranks) return ncclSuccess;
    return ccl_err(ncclInvalidArgument, "%s: %s %d is not in [0, %d)", rule->function,
                   rule->root_name, op->root, nranks);
}

static ncclResult_t check_type(const struct call_rule *rule, const struct ccl_op *op)
{
    return ccl_argcheck_type(op->type, rule->function);
}

static ncclResult_t check_redop(const struct call_rule *rule, const struct ccl_op *op)
{
    if (!rule->reduces) return ncclSuccess;
    return ccl_redop_check(op->comm, op->redop, op->type, rule->function);
}

/* No buffer is larger than half the address space; a larger count is a negative one that was
 * cast, and its size in bytes would wrap. */
static ncclResult_t check_count(const struct call_rule *rule, const struct ccl_op *op)
{
    size_t blocks = rule->per_rank ? (size_t)ccl_comm_nranks(op->comm) : 1;
    if (op->count_elems <= (size_t)PTRDIFF_MAX / ccl_type_bytes(op->type) / blocks)
        return ncclSuccess;
    return ccl_err(ncclInvalidArgument, "%s: count %zu of %zu-byte elements%s exceeds any buffer",
                   rule->function, op->count_elems, ccl_type_bytes(op->type),
                   rule->per_rank ? " for every rank" : "");
}

static int uses(enum use use, const struct ccl_op *op)
{
    if (use == AT_ROOT) return op->root == ccl_comm_rank(op->comm);
    return use == USED;
}

static ncclResult_t check_buffers(const struct call_rule *rule, const struct ccl_op *op)
{
    const char *missing = NULL;
    if (op->count_elems == 0) return ncclSuccess;
    if (op->out == NULL && uses(rule->out_use, op)) missing = rule->out_name;
    if (op->in == NULL && uses(rule->in_use, op)) missing = rule->in_name;
    if (missing == NULL) return ncclSuccess;
    return ccl_err(ncclInvalidArgument, "%s: %s is NULL with count %zu", rule->function, missing,
                   op->count_elems);
}

/* ---- buffers that are examined ---- */

static int examines;
static pthread_once_t examines_once = PTHREAD_ONCE_INIT;

static void read_mode(void)
{
    const char *mode = ccl_param_text(CCL_PARAM_CHECK_MODE);
    examines = (int)ccl_param_int(CCL_PARAM_CHECK_POINTERS);
    if (mode == NULL || strcasecmp(mode, "DEFAULT") == 0) return;
    if (strcasecmp(mode, "DEBUG_LOCAL") == 0 || strcasecmp(mode, "DEBUG_GLOBAL") == 0)
        examines = 1;
    else
        ccl_log(CCL_LOG_WARN, CCL_LOG_ENV,
                "NCCL_CHECK_MODE=%s is not DEFAULT, DEBUG_LOCAL or DEBUG_GLOBAL; using DEFAULT",
                mode);
}

/* Blocks of count elements that the buffers of a collective hold. */
static size_t blocks_of(const struct ccl_op *op, enum ccl_coll coll, int is_out)
{
    int of_all =
        coll == CCL_ALL_TO_ALL || (is_out ? coll == CCL_ALL_GATHER || coll == CCL_GATHER
                                          : coll == CCL_REDUCE_SCATTER || coll == CCL_SCATTER);
    return of_all ? (size_t)ccl_comm_nranks(op->comm) : 1;
}

static ncclResult_t examine(const struct call_rule *rule, const struct ccl_op *op, int is_out)
{
    const void *buffer = is_out ? op->out : op->in;
    int device = ccl_comm_device(op->comm);
    size_t bytes = op->count_elems * ccl_type_bytes(op->type) * blocks_of(op, rule->coll, is_out);
    void *before;
    TRY(ccl_device()->enter(device, &before));
    const char *fault = ccl_device()->memory_fault(device, buffer, bytes);
    ccl_device()->leave(before);
    if (fault == NULL) return ncclSuccess;
    return ccl_err(ncclInvalidArgument, "%s: rank %d on device %d: %s %p of %zu bytes %s",
                   rule->function, ccl_comm_rank(op->comm), device,
                   is_out ? rule->out_name : rule->in_name, buffer, bytes, fault);
}

/* Costs a call of the system or the driver for each buffer, so users ask for it. */
static ncclResult_t check_memory(const struct call_rule *rule, const struct ccl_op *op)
{
    pthread_once(&examines_once, read_mode);
    if (!examines || op->count_elems == 0) return ncclSuccess;
    if (uses(rule->in_use, op)) TRY(examine(rule, op, 0));
    return uses(rule->out_use, op) ? examine(rule, op, 1) : ncclSuccess;
}

/* The order of the checks is part of the interface: the first failure is returned. */
ncclResult_t ccl_argcheck_op(enum ccl_call call, struct ccl_op *op)
{
    const struct call_rule *rule = &call_rules[call];
    TRY(check_ready(rule, op));
    TRY(check_root(rule, op));
    TRY(check_type(rule, op));
    TRY(check_redop(rule, op));
    TRY(check_count(rule, op));
    TRY(check_buffers(rule, op));
    TRY(check_memory(rule, op));
    op->coll = rule->coll;
    if (!uses(rule->in_use, op)) op->in = NULL;
    if (!uses(rule->out_use, op)) op->out = NULL;
    return ncclSuccess;
}
