/* What lets a test for host devices run on GPUs: memory that it may look at (of host devices as it
 * is, of a GPU pinned memory of the host, which kernels reach as they do the GPU's own), and
 * devices by numbers that may be more than there are. */
#ifndef TEST_MEMORY_H
#define TEST_MEMORY_H

#include <stddef.h>

/* For the current device. A failure ends the case. */
void *test_memory_alloc(size_t bytes);
void test_memory_free(void *memory);

/* Whether the devices of this process are GPUs. */
int test_on_gpu(void);

/* The device that stands for device i: where there are fewer, they are taken in turn. */
int test_device(int i);
/* `n`, or how many there are. */
int test_devices(int n);

/* A function of the driver; fails the case when there is none of that name. A simulated GPU brings
 * its own driver. */
extern void *(*test_driver_stand_in)(const char *name);
void *test_driver_function(const char *name);

#endif
