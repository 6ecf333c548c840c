/* Group calls. The depth and the collected work are thread-local state of core/group.c; called by
 * programs. Nothing is checked here because a group call has no arguments.
 */
#include "api/api.h"

CCL_API(ncclResult_t, ncclGroupStart, (void))
{
    return ccl_group_start();
}

CCL_API(ncclResult_t, ncclGroupEnd, (void))
{
    return ccl_group_end();
}
