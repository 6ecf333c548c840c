/* nvml.h: the number that NVIDIA's management library gives to a GPU. Called by the api; needs no
 * CUDA to be built. The library is opened for the question and closed again.
 */
#ifndef CCL_DEVICE_NVML_H
#define CCL_DEVICE_NVML_H

/* `identity` is what a device of CUDA tells of itself, "cuda " and the 32 digits of its UUID.
 * -1: it is no such text, there is no such library, or it does not know the device. */
int ccl_nvml_index(const char *identity);

#endif
