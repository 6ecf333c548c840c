/* The driver's functions are looked up by name, so that this needs nothing of CUDA to be built. */
#include "unit/memory.h"

#include "chorus.h"
#include "unit/test.h"

#include <dlfcn.h>
#include <string.h>

enum { FOR_ALL_CONTEXTS = 1 }; /* CU_MEMHOSTALLOC_PORTABLE */

int test_on_gpu(void)
{
    return strcmp(chorus_devices()->kind, "cuda") == 0;
}

int test_devices(int n)
{
    int ndevices = 0;
    CHECK_OK(chorus_devices()->count(&ndevices));
    CHECK(ndevices > 0);
    return ndevices < n ? ndevices : n;
}

int test_device(int i)
{
    return i % test_devices(i + 1);
}

void *(*test_driver_stand_in)(const char *name);

static void *look_up(const char *name)
{
    if (test_driver_stand_in != NULL) return test_driver_stand_in(name);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL) FAIL("no driver: %s", dlerror());
    return dlsym(driver, name);
}

void *test_driver_function(const char *name)
{
    void *function = look_up(name);
    if (function == NULL) FAIL("the driver has no %s", name);
    return function;
}

void *test_memory_alloc(size_t bytes)
{
    void *memory = NULL;
    if (!test_on_gpu()) {
        CHECK_OK(chorus_devices()->alloc(&memory, bytes));
        return memory;
    }
    int device, (*alloc)(void **, size_t, unsigned);
    CHECK_OK(chorus_devices()->get(&device));
    CHECK_OK(chorus_devices()->set(device)); /* a new thread has no context */
    *(void **)&alloc = test_driver_function("cuMemHostAlloc");
    CHECK_EQ(alloc(&memory, bytes, FOR_ALL_CONTEXTS), 0);
    return memory;
}

void test_memory_free(void *memory)
{
    if (!test_on_gpu()) {
        CHECK_OK(chorus_devices()->free(memory));
        return;
    }
    int (*release)(void *);
    *(void **)&release = test_driver_function("cuMemFreeHost");
    CHECK_EQ(release(memory), 0);
}
