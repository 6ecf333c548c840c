/* Device buffers: allocation, slots and placements. A buffer is GUARD + shift + data + GUARD per
 * slot, rounded up to the alignment; in place the larger of the two buffers holds everything.
 */
#include "harness/buffers.h"

#include "harness/devices.h"
#include "harness/ending.h"
#include "harness/trial.h"
#include "harness/verify.h"

#include <string.h>

enum { ALIGN = 256 };

size_t perf_buffer_need(size_t data_bytes, size_t shift_bytes)
{
    size_t bytes = data_bytes + shift_bytes + 2 * PERF_GUARD_BYTES;
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Memory that is registered comes from the library, which knows best what it can register. */
static void alloc_one(char **memory, size_t bytes, ncclComm_t comm, void **handle)
{
    const struct perf_device_ops *devices = perf_devices();
    void *got = NULL;
    if (comm == NULL)
        perf_check(devices->alloc(&got, bytes), "allocation of a buffer");
    else
        perf_check(ncclMemAlloc(&got, bytes), "ncclMemAlloc");
    *memory = got;
    perf_check(devices->fill(got, 0, bytes, NULL), "clearing a buffer");
    if (comm != NULL) perf_check(ncclCommRegister(comm, got, bytes, handle), "ncclCommRegister");
}

static void free_one(char *memory, ncclComm_t comm, void *handle)
{
    if (memory == NULL) return;
    if (handle == NULL) {
        perf_check(perf_devices()->free(memory), "freeing a buffer");
        return;
    }
    perf_check(ncclCommDeregister(comm, handle), "ncclCommDeregister");
    perf_check(ncclMemFree(memory), "ncclMemFree");
}

void perf_buffers_alloc(struct perf_buffers *buffers, int device, ncclComm_t comm)
{
    const struct perf_device_ops *devices = perf_devices();
    perf_check(devices->set(device), "setting the device");
    alloc_one(&buffers->send, buffers->send_bytes, comm, &buffers->send_handle);
    alloc_one(&buffers->recv, buffers->recv_bytes, comm, &buffers->recv_handle);
    if (devices->values != NULL) {
        struct perf_value_job load = {.mode = PERF_VALUES_LOAD};
        perf_check(devices->alloc(&buffers->scratch, PERF_TRIAL_SCRATCH), "verification memory");
        perf_check(devices->values(&load, NULL), "loading the kernels of verification");
    }
    perf_check(devices->stream_sync(NULL), "clearing the buffers");
}

void perf_buffers_free(struct perf_buffers *buffers, int device, ncclComm_t comm)
{
    const struct perf_device_ops *devices = perf_devices();
    perf_check(devices->set(device), "setting the device");
    free_one(buffers->send, comm, buffers->send_handle);
    free_one(buffers->recv, comm, buffers->recv_handle);
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
