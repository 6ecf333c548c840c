/* Chooses the device backend of the process. */
#include "device/device.h"

const struct ccl_device_ops *ccl_device(void)
{
    return &ccl_device_host;
}

const struct chorus_devices *chorus_devices(void)
{
    return &ccl_device()->base;
}
