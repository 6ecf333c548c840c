/* What a unique id says: where the root listens, and the secret of the session. */
#ifndef CCL_BOOT_ID_H
#define CCL_BOOT_ID_H

#include "base/mac.h"
#include "base/sock.h"

struct ccl_boot_id {
    int fixed; /* made from NCCL_COMM_ID: rank 0 starts the root, ids of all processes are equal */
    union ccl_sock_addr root;
    uint8_t secret[CCL_KEY_BYTES];
    uint32_t pid; /* of the process that made it; 0 when fixed */
    char host[48];
};

void ccl_boot_id_pack(const struct ccl_boot_id *id, ncclUniqueId *out);

/* ncclInvalidArgument when `in` was not made by ccl_boot_id_pack or was damaged since. */
ncclResult_t ccl_boot_id_unpack(const ncclUniqueId *in, struct ccl_boot_id *id);

/* The id for a value of NCCL_COMM_ID. Its secret is derived from the text, so it keeps out
 * accidents but nobody who knows the variable. ncclInvalidUsage naming the value. */
ncclResult_t ccl_boot_id_fixed(const char *text, struct ccl_boot_id *id);

#endif
