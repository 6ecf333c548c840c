/* Looks up the driver's functions, see cuda_dl.h. The driver is never closed: the runtime uses it
 * until the process ends.
 */
#include "device/cuda_dl.h"

#include "base/err.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

#define AS_TEXT_(x) #x
#define AS_TEXT(x)  AS_TEXT_(x)

static struct ccl_driver driver;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void look_up(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return;
#define LOOK_UP(name) *(void **)&driver.name = dlsym(library, AS_TEXT(name));
    CCL_DRIVER_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
}

const struct ccl_driver *ccl_driver(void)
{
    pthread_once(&once, look_up);
    return &driver;
}

ncclResult_t ccl_driver_check(CUresult result, const char *what)
{
    const char *name = NULL, *text = NULL;
    if (result == CUDA_SUCCESS) return ncclSuccess;
    if (driver.cuGetErrorName != NULL) driver.cuGetErrorName(result, &name);
    if (driver.cuGetErrorString != NULL) driver.cuGetErrorString(result, &text);
    return ccl_err(ncclUnhandledCudaError, "%s: %s (%s, %d)", what,
                   text != NULL ? text : "unknown error", name != NULL ? name : "no name",
                   (int)result);
}

ncclResult_t ccl_driver_missing(const char *name)
{
    return ccl_err(ncclSystemError,
                   "%s: this driver does not have it (libcuda.so.1 is too old, or "
                   "not there)",
                   name);
}
