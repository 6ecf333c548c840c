/* reg.h: registered buffers of a communicator, and memory that the library allocates.
 */
#ifndef CCL_CORE_REG_H
#define CCL_CORE_REG_H

#include "core/comm.h"

void ccl_reg_free(ncclComm_t comm);

#endif
