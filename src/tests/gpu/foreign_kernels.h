/* Contents of buffers for test_foreign, written and checked on the GPU. Both wait for the end. Byte
 * i of a buffer that begins `first` bytes into its block is a hash of seed, first and i.
 */
#ifndef GPU_FOREIGN_KERNELS_H
#define GPU_FOREIGN_KERNELS_H

#include <stddef.h>
#include <stdint.h>

struct foreign_range {
    void *at;
    size_t bytes, first;
    uint64_t seed;
};

#ifdef __cplusplus
extern "C" {
#endif

/* Loads the kernels; a cudaError_t as all results here. */
int foreign_load(void);
int foreign_fill(struct foreign_range range);
/* Adds the number of wrong bytes to *wrong. */
int foreign_check(struct foreign_range range, unsigned long long *wrong);

#ifdef __cplusplus
}
#endif
#endif
