/* What the importers of a process share: the allocations of other processes that it holds open,
 * and their mappings. cuda_import.c reads messages and makes regions of them, cuda_region.c maps.
 *
 * A piece is one allocation of another process, opened once here. A region is a row of pieces in a
 * row of addresses of one device. Regions are found by their pieces and counted by importers.
 */
#ifndef CCL_DEVICE_CUDA_IMPORT_H
#define CCL_DEVICE_CUDA_IMPORT_H

#include "device/cuda_foreign.h"
#include "device/cuda_share.h"

struct ccl_piece;

/* Opens the allocation of a message, or finds it, and counts the caller. A chunk comes by `fd`,
 * which stays the caller's. */
ncclResult_t ccl_piece_get(const struct ccl_share *share, int fd, struct ccl_piece **out);
void ccl_piece_put(struct ccl_piece *piece);

/* A block of another process's cudaMalloc that is open here, cuda_block.c. Opens the one that an
 * allocation lies in on the current device `device`, or counts once more that it is open. */
struct ccl_block;
ncclResult_t ccl_block_open(const struct ccl_share *share, int device, struct ccl_block **out,
                            char **address);
ncclResult_t ccl_block_close(struct ccl_block *block);
size_t ccl_block_count(void);

/* The region of these pieces on a device, counted. It takes over the caller's array and what it
 * counts of the pieces, also when it fails. Nothing is mapped yet. */
ncclResult_t ccl_region_get(int device, struct ccl_piece **pieces, size_t npieces,
                            struct ccl_region **out);
void ccl_region_put(struct ccl_region *region);

/* The address of `offset`, after which `bytes` must lie in the region; pins it. */
ncclResult_t ccl_region_use(struct ccl_region *region, uint64_t offset, size_t bytes,
                            char **address);

/* Closes what is to be closed, see ccl_import_collect. */
ncclResult_t ccl_region_collect(void);

#endif
