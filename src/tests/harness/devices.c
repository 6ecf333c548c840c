/* The choice of the devices, and what the drivers ask about them, see devices.h.
 *
 * GPUs are looked for before the library is asked for its own kind of device, since that is when
 * it reads its variables.
 */
#include "harness/devices.h"

#include "harness/library.h"
#include "harness/usage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REASON_BYTES = 256 };

static struct {
    const struct perf_device_ops *ops; /* NULL: nobody has chosen */
    char reason[REASON_BYTES];
    int multi_rank;
    enum perf_device_choice wanted;
} chosen;

/* A variable that the user has set is left to him. */
static int set_unless_set(const char *name, const char *value)
{
    const char *text = getenv(name);
    if (text != NULL && text[0] != '\0') return 0;
    return setenv(name, value, 1) == 0;
}

/* For our library CHORUS_DEVICE is the default of the option. */
static enum perf_device_choice read_choice(void)
{
    enum perf_device_choice choice = chosen.wanted;
    const char *text = getenv("CHORUS_DEVICE");
    if (choice != PERF_DEVICE_AUTO || text == NULL || !perf_library_is_ours()) return choice;
    if (strcmp(text, "cuda") == 0) return PERF_DEVICE_CUDA;
    return strcmp(text, "host") == 0 ? PERF_DEVICE_HOST : choice;
}

static int choose_host(char *why, size_t bytes)
{
    setenv("CHORUS_DEVICE", "host", 1);
    chosen.ops = perf_devices_host(why, bytes);
    return chosen.ops != NULL ? PERF_EXIT_OK : PERF_EXIT_ERROR;
}

/* GPUs, when the library has them too. 0 when it has not. */
static int choose_cuda(const struct perf_device_ops *cuda, int ranks)
{
    int ndevices = 0;
    if (cuda->count(&ndevices) == ncclSuccess && ranks > ndevices)
        chosen.multi_rank = set_unless_set("NCCL_MULTI_RANK_GPU_ENABLE", "1");
    if (perf_library_is_ours() && strcmp(perf_library_device_kind(), "cuda") != 0) return 0;
    chosen.ops = cuda;
    return 1;
}

void perf_devices_prefer(enum perf_device_choice choice)
{
    chosen.wanted = choice;
}

int perf_devices_choose(int ranks, char *why, size_t bytes)
{
    static const char only_host[] = "the library has host devices only";
    enum perf_device_choice choice = read_choice();
    char no_cuda[REASON_BYTES] = "";
    if (chosen.ops != NULL) return PERF_EXIT_OK;
    if (choice == PERF_DEVICE_HOST) {
        if (choose_host(no_cuda, sizeof no_cuda) == PERF_EXIT_OK) return PERF_EXIT_OK;
        snprintf(why, bytes, "option --device: host: %s", no_cuda);
        return PERF_EXIT_USAGE;
    }
    const struct perf_device_ops *cuda = perf_devices_cuda(no_cuda, sizeof no_cuda);
    if (cuda != NULL && choice == PERF_DEVICE_CUDA) setenv("CHORUS_DEVICE", "cuda", 1);
    if (cuda != NULL && choose_cuda(cuda, ranks)) return PERF_EXIT_OK;
    if (cuda != NULL) snprintf(no_cuda, sizeof no_cuda, "%s", only_host);
    if (choice == PERF_DEVICE_CUDA) {
        snprintf(why, bytes, "option --device: cuda: %s", no_cuda);
        return PERF_EXIT_USAGE;
    }
    int code = choose_host(why, bytes);
    if (code == PERF_EXIT_OK)
        snprintf(chosen.reason, sizeof chosen.reason, "%s", no_cuda);
    else
        snprintf(why + strlen(why), bytes - strlen(why), ", and no GPU can be used: %s", no_cuda);
    return code;
}

const struct perf_device_ops *perf_devices(void)
{
    if (chosen.ops != NULL) return chosen.ops;
    char why[2 * REASON_BYTES];
    int code = perf_devices_choose(0, why, sizeof why);
    if (code == PERF_EXIT_OK) return chosen.ops;
    fprintf(stderr, "%s: %s\n", perf_program(), why);
    exit(code);
}

void perf_devices_take(const struct perf_device_ops *ops)
{
    chosen.ops = ops;
}

const char *perf_devices_reason(void)
{
    return chosen.reason;
}

int perf_devices_multi_rank(void)
{
    return chosen.multi_rank;
}

const char *perf_devices_error(void)
{
    return chosen.ops != NULL && !chosen.ops->host_visible ? perf_devices_cuda_error() : "";
}

int perf_device_count(void)
{
    int ndevices = 0;
    ncclResult_t result = perf_devices()->count(&ndevices);
    if (result == ncclSuccess && ndevices > 0) return ndevices;
    fprintf(stderr, "%s: no devices: %s\n", perf_program(),
            result == ncclSuccess ? "the count is 0" : ncclGetLastError(NULL));
    exit(PERF_EXIT_ERROR);
}

int perf_devices_host_visible(void)
{
    return perf_devices()->host_visible;
}

static int first_device(void)
{
    const char *text = getenv("NCCL_TESTS_DEVICE");
    if (text == NULL || text[0] == '\0') return 0;
    char *end;
    errno = 0;
    long device = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || device < 0 || device >= 1 << 16)
        perf_usage("NCCL_TESTS_DEVICE: '%s' is no device number", text);
    return (int)device;
}

void perf_devices_check(void)
{
    first_device();
}

int perf_device_of(int local_rank)
{
    return (first_device() + local_rank) % perf_device_count();
}

void perf_devices_list(void)
{
    const struct perf_device_ops *devices = perf_devices();
    int ndevices = perf_device_count();
    printf("%d %s device%s\n", ndevices, devices->kind, ndevices == 1 ? "" : "s");
    if (chosen.reason[0] != '\0') printf("no GPU: %s\n", chosen.reason);
    for (int i = 0; i < ndevices; i++) {
        struct perf_device_info info;
        if (devices->info(i, &info) != ncclSuccess) {
            const char *error = perf_devices_error();
            printf("%3d  %s\n", i, error[0] != '\0' ? error : ncclGetLastError(NULL));
            continue;
        }
        printf("%3d  [%s] %s, %.1f GiB, %.1f GiB free%s%s\n", i, info.pci, info.name,
               (double)info.total_bytes / (1 << 30), (double)info.free_bytes / (1 << 30),
               info.uuid[0] != '\0' ? ", " : "", info.uuid);
    }
}
