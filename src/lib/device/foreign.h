/* foreign.h: buffers of other processes, as the core sees them: a table of the functions of
 * cuda_foreign.h, where they are described. NULL in the device's table: it has none.
 */
#ifndef CCL_DEVICE_FOREIGN_H
#define CCL_DEVICE_FOREIGN_H

#include "device/cuda_foreign.h"

struct ccl_foreign_ops {
    ncclResult_t (*export_open)(int socket, struct ccl_exporter **out);
    void (*export_close)(struct ccl_exporter *exporter);
    ncclResult_t (*export_buffer)(struct ccl_exporter *exporter, const void *address, size_t bytes,
                                  const struct ccl_sock_wait *wait, struct ccl_foreign_ref *out);
    ncclResult_t (*export_sweep)(struct ccl_exporter *exporter);
    ncclResult_t (*import_open)(int socket, struct ccl_importer **out);
    void (*import_close)(struct ccl_importer *importer);
    ncclResult_t (*import_buffer)(struct ccl_importer *importer, const struct ccl_foreign_ref *ref,
                                  size_t bytes, const struct ccl_sock_wait *wait,
                                  struct ccl_imported *out);
    void (*import_unpin)(struct ccl_region *region);
    ncclResult_t (*import_read)(struct ccl_importer *importer);
    ncclResult_t (*import_collect)(struct ccl_importer *importer);
    int (*staging_can_stand_for)(const void *address);
    ncclResult_t (*staging_take)(size_t bytes, struct ccl_staging **out);
    ncclResult_t (*staging_mark)(struct ccl_staging *staging, cudaStream_t stream);
    ncclResult_t (*staging_follow)(struct ccl_staging *staging, cudaStream_t stream);
    void (*staging_put)(struct ccl_staging *staging);
};

#endif
