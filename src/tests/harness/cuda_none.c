/* Stands for cuda_device.c in a build without nvcc: there are no GPUs. */
#include "harness/devices.h"

#include <stdio.h>

const struct perf_device_ops *perf_devices_cuda(char *why, size_t bytes)
{
    snprintf(why, bytes, "this driver was built without CUDA");
    return NULL;
}

const char *perf_devices_cuda_error(void)
{
    return "";
}
