/* Chooses the device backend of the process, once: GPUs where a driver and a device work, else
 * host devices, unless CHORUS_DEVICE says which. */
#include "device/device.h"

#include "base/err.h"
#include "base/log.h"
#include "base/param.h"

#include <string.h>

static const struct ccl_device_ops *find_cuda(int is_asked)
{
    const char *why = "this library was built without CUDA";
    if (CCL_HAS_CUDA && (ccl_cuda_count(&why) > 0 || is_asked)) return &ccl_device_cuda;
    /* Every use of a device that is not there is an error of its own. */
    if (is_asked)
        ccl_err(ncclInvalidUsage, "CHORUS_DEVICE=cuda: %s; host devices are used", why);
    else if (CCL_HAS_CUDA)
        CCL_INFO(CCL_LOG_INIT, "host devices: no GPU can be used (%s)", why);
    return NULL;
}

static const struct ccl_device_ops *choose(void)
{
    const char *word = ccl_param_text(CCL_PARAM_DEVICE);
    int is_cuda = strcmp(word, "cuda") == 0, is_host = strcmp(word, "host") == 0;
    if (!is_cuda && !is_host && strcmp(word, "auto") != 0)
        ccl_err(ncclInvalidUsage, "CHORUS_DEVICE=%s: not auto, cuda or host; auto is used", word);
    const struct ccl_device_ops *cuda = is_host ? NULL : find_cuda(is_cuda);
    return cuda != NULL ? cuda : &ccl_device_host;
}

const struct ccl_device_ops *ccl_device_chosen;

const struct ccl_device_ops *ccl_device_choose(void)
{
    const struct ccl_device_ops *ops = choose();
    __atomic_store_n(&ccl_device_chosen, ops, __ATOMIC_RELAXED);
    return ops;
}

const struct chorus_devices *chorus_devices(void)
{
    return &ccl_device()->base;
}
