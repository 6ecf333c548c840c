/* Group calls. The depth and the collected work are thread-local state of core/group.c; called by
 * programs. Nothing is checked here: a group call has no arguments, and what the estimate is
 * written to is looked at by the outermost end alone.
 */
#include "api/api.h"

#include "base/log.h"
#include "base/range.h"

CCL_API(ncclResult_t, ncclGroupStart, (void))
{
    CCL_INFO(CCL_LOG_CALL, "ncclGroupStart");
    return ccl_group_start();
}

CCL_API(ncclResult_t, ncclGroupEnd, (void))
{
    CCL_INFO(CCL_LOG_CALL, "ncclGroupEnd");
    ccl_range_begin("ncclGroupEnd");
    ncclResult_t rc = ccl_group_end();
    ccl_range_end();
    return rc;
}

CCL_API(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t * simInfo))
{
    CCL_INFO(CCL_LOG_CALL, "ncclGroupSimulateEnd");
    return ccl_group_simulate(simInfo);
}
