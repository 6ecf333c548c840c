/* transport.c: the transports in order of preference. */
#include "transport/transport.h"

const struct ccl_transport_ops *const ccl_transports[] = {
    &ccl_transport_p2p,
    &ccl_transport_shm,
    NULL,
};
