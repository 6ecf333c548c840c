/* Device buffers: allocation, slots and placements. A buffer is GUARD + shift + data + GUARD per
 * slot, rounded up to the alignment; in place the larger of the two buffers holds everything.
 */
#include "harness/buffers.h"

#include "harness/devices.h"
#include "harness/ending.h"
#include "harness/library.h"
#include "harness/trial.h"
#include "harness/verify.h"
#include "harness/world.h"

#include <string.h>

enum { ALIGN = 256 };

size_t perf_buffer_need(size_t data_bytes, size_t shift_bytes)
{
    size_t bytes = data_bytes + shift_bytes + 2 * PERF_GUARD_BYTES;
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static void alloc_one(char **memory, size_t bytes, int from_library)
{
    const struct perf_device_ops *devices = perf_devices();
    void *got = NULL;
    if (from_library)
        perf_check(ncclMemAlloc(&got, bytes), "ncclMemAlloc");
    else
        perf_check(devices->alloc(&got, bytes), "allocation of a buffer");
    *memory = got;
    perf_check(devices->fill(got, 0, bytes, NULL), "clearing a buffer");
}

static void free_one(char *memory, int from_library)
{
    if (memory == NULL) return;
    if (from_library)
        perf_check(ncclMemFree(memory), "ncclMemFree");
    else
        perf_check(perf_devices()->free(memory), "freeing a buffer");
}

/* Memory that is registered comes from the library, which knows best what it can register. */
void perf_buffers_alloc(struct perf_buffers *buffers, int device,
                        enum perf_registration registration, ncclComm_t comm)
{
    static const char registering[] = "ncclCommRegister";
    const struct perf_device_ops *devices = perf_devices();
    perf_check(devices->set(device), "setting the device");
    buffers->from_library = registration != PERF_UNREGISTERED;
    alloc_one(&buffers->send, buffers->send_bytes, buffers->from_library);
    alloc_one(&buffers->recv, buffers->recv_bytes, buffers->from_library);
    if (registration == PERF_REGISTERED) {
        perf_check(
            ncclCommRegister(comm, buffers->send, buffers->send_bytes, &buffers->send_handle),
            registering);
        perf_check(
            ncclCommRegister(comm, buffers->recv, buffers->recv_bytes, &buffers->recv_handle),
            registering);
    }
    if (devices->values != NULL) {
        struct perf_value_job load = {.mode = PERF_VALUES_LOAD};
        perf_check(devices->alloc(&buffers->scratch, PERF_TRIAL_SCRATCH), "verification memory");
        perf_check(devices->values(&load, NULL), "loading the kernels of verification");
    }
    perf_check(devices->stream_sync(NULL), "clearing the buffers");
}

/* Success without a window is how a library says that it has none here. */
static void check_window(ncclWindow_t window)
{
    if (window == NULL)
        perf_end(PERF_EXIT_ERROR, "option -R 2: the library gives no windows on these devices");
}

void perf_buffers_windows(struct perf_rank *ranks, int n)
{
    perf_check(ncclGroupStart(), "ncclGroupStart");
    for (int i = 0; i < n; i++) {
        struct perf_buffers *buffers = &ranks[i].buffers;
        perf_check(perf_devices()->set(ranks[i].device), "setting the device");
        perf_window_register(ranks[i].comm, buffers->send, buffers->send_bytes,
                             &buffers->send_window);
        perf_window_register(ranks[i].comm, buffers->recv, buffers->recv_bytes,
                             &buffers->recv_window);
    }
    perf_check(ncclGroupEnd(), "ncclCommWindowRegister");
    for (int i = 0; i < n; i++) {
        check_window(ranks[i].buffers.send_window);
        check_window(ranks[i].buffers.recv_window);
    }
}

static void unregister(const struct perf_buffers *buffers, ncclComm_t comm)
{
    if (buffers->send_handle != NULL)
        perf_check(ncclCommDeregister(comm, buffers->send_handle), "ncclCommDeregister");
    if (buffers->recv_handle != NULL)
        perf_check(ncclCommDeregister(comm, buffers->recv_handle), "ncclCommDeregister");
    if (buffers->send_window != NULL) perf_window_deregister(comm, buffers->send_window);
    if (buffers->recv_window != NULL) perf_window_deregister(comm, buffers->recv_window);
}

void perf_buffers_free(struct perf_buffers *buffers, int device, ncclComm_t comm)
{
    const struct perf_device_ops *devices = perf_devices();
    perf_check(devices->set(device), "setting the device");
    unregister(buffers, comm);
    free_one(buffers->send, buffers->from_library);
    free_one(buffers->recv, buffers->from_library);
    if (buffers->scratch != NULL) perf_check(devices->free(buffers->scratch), "freeing memory");
    memset(buffers, 0, sizeof *buffers);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

void perf_layout_slots(struct perf_layout *layout, const struct perf_buffers *buffers)
{
    size_t send = perf_buffer_need(layout->send_bytes, layout->shift_bytes);
    size_t recv = perf_buffer_need(layout->recv_bytes, layout->shift_bytes);
    if (layout->in_place) {
        layout->slots = larger(buffers->send_bytes, buffers->recv_bytes) / larger(send, recv);
        return;
    }
    size_t of_send = buffers->send_bytes / send, of_recv = buffers->recv_bytes / recv;
    layout->slots = of_send < of_recv ? of_send : of_recv;
}

void perf_layout_place(const struct perf_layout *layout, const struct perf_buffers *buffers,
                       size_t slot, struct perf_place *place)
{
    size_t start = PERF_GUARD_BYTES + layout->shift_bytes;
    size_t send_need = perf_buffer_need(layout->send_bytes, layout->shift_bytes);
    size_t recv_need = perf_buffer_need(layout->recv_bytes, layout->shift_bytes);
    if (layout->in_place) {
        char *base = buffers->send_bytes >= buffers->recv_bytes ? buffers->send : buffers->recv;
        char *area = base + slot * larger(send_need, recv_need) + start;
        place->send_area = place->recv_area = area;
        place->send_area_bytes = larger(layout->send_bytes, layout->recv_bytes);
        place->recv_area_bytes = place->send_area_bytes;
        place->send = area + layout->send_offset;
        place->recv = area + layout->recv_offset;
        return;
    }
    place->send = place->send_area = buffers->send + slot * send_need + start;
    place->recv = place->recv_area = buffers->recv + slot * recv_need + start;
    place->send_area_bytes = layout->send_bytes;
    place->recv_area_bytes = layout->recv_bytes;
}
