/* nvml.c: asks libnvidia-ml.so.1 for the index of a UUID, see nvml.h. Slices of a GPU have UUIDs of
 * their own, with another prefix.
 */
#include "device/nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { UUID_DIGITS = 32 };

struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*handle_of)(const char *uuid, void **device);
    int (*index_of)(void *device, unsigned *index);
};

static int look_up(void *library, struct nvml *nvml)
{
    *(void **)&nvml->init = dlsym(library, "nvmlInit_v2");
    *(void **)&nvml->shutdown = dlsym(library, "nvmlShutdown");
    *(void **)&nvml->handle_of = dlsym(library, "nvmlDeviceGetHandleByUUID");
    *(void **)&nvml->index_of = dlsym(library, "nvmlDeviceGetIndex");
    return nvml->init != NULL && nvml->shutdown != NULL && nvml->handle_of != NULL &&
           nvml->index_of != NULL;
}

/* Functions of NVML return 0 when they succeed. */
static int ask(const struct nvml *nvml, const char *digits)
{
    static const char *const prefixes[] = {"GPU", "MIG"};
    int found = -1;
    if (nvml->init() != 0) return -1;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0] && found < 0; i++) {
        char uuid[64];
        void *device;
        unsigned index;
        snprintf(uuid, sizeof uuid, "%s-%.8s-%.4s-%.4s-%.4s-%.12s", prefixes[i], digits, digits + 8,
                 digits + 12, digits + 16, digits + 20);
        if (nvml->handle_of(uuid, &device) == 0 && nvml->index_of(device, &index) == 0)
            found = (int)index;
    }
    (void)nvml->shutdown();
    return found;
}

int ccl_nvml_index(const char *identity)
{
    static const char start[] = "cuda ";
    const char *digits = identity + sizeof start - 1;
    struct nvml nvml;
    int found = -1;
    if (strncmp(identity, start, sizeof start - 1) != 0 || strlen(digits) != UUID_DIGITS) return -1;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return -1;
    if (look_up(library, &nvml)) found = ask(&nvml, digits);
    dlclose(library);
    return found;
}
