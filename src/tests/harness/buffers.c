/* Device buffers: allocation, slots and placements. A buffer is GUARD + shift + data + GUARD per
 * slot, rounded up to the alignment; in place the larger of the two buffers holds everything.
 */
#include "harness/buffers.h"

#include "harness/devices.h"
#include "harness/ending.h"
#include "harness/verify.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 256 };

size_t perf_buffer_need(size_t data_bytes, size_t shift_bytes)
{
    size_t bytes = data_bytes + shift_bytes + 2 * PERF_GUARD_BYTES;
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static void alloc_one(char **memory, size_t bytes, ncclComm_t comm, void **handle)
{
    const struct chorus_devices *devices = perf_devices();
    void *got = NULL;
    perf_check(devices->alloc(&got, bytes), "allocation of a buffer");
    *memory = got;
    perf_check(devices->fill(got, 0, bytes, NULL), "clearing a buffer");
    if (handle != NULL) perf_check(ncclCommRegister(comm, got, bytes, handle), "ncclCommRegister");
}

void perf_buffers_alloc(struct perf_buffers *buffers, int device, ncclComm_t comm)
{
    const struct chorus_devices *devices = perf_devices();
    perf_check(devices->set(device), "setting the device");
    alloc_one(&buffers->send, buffers->send_bytes, comm,
              comm != NULL ? &buffers->send_handle : NULL);
    alloc_one(&buffers->recv, buffers->recv_bytes, comm,
              comm != NULL ? &buffers->recv_handle : NULL);
    perf_check(devices->stream_sync(NULL), "clearing the buffers");
}

void perf_buffers_free(struct perf_buffers *buffers, int device, ncclComm_t comm)
{
    const struct chorus_devices *devices = perf_devices();
    perf_check(devices->set(device), "setting the device");
    if (buffers->send_handle != NULL) ncclCommDeregister(comm, buffers->send_handle);
    if (buffers->recv_handle != NULL) ncclCommDeregister(comm, buffers->recv_handle);
    if (buffers->send != NULL) perf_check(devices->free(buffers->send), "freeing a buffer");
    if (buffers->recv != NULL) perf_check(devices->free(buffers->recv), "freeing a buffer");
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

void perf_view_open(struct perf_view *view, char *device, size_t bytes, int load)
{
    view->device = device;
    view->bytes = bytes;
    view->copied = !perf_devices_host_visible();
    view->host = device;
    if (!view->copied) return;
    view->host = malloc(bytes);
    if (view->host == NULL) perf_end(PERF_EXIT_ERROR, "out of host memory for verification");
    if (!load) return;
    perf_check(perf_devices()->copy(view->host, device, bytes, NULL), "copy from the device");
    perf_check(perf_devices()->stream_sync(NULL), "copy from the device");
}

void perf_view_close(struct perf_view *view, int store)
{
    if (!view->copied) return;
    if (store) {
        perf_check(perf_devices()->copy(view->device, view->host, view->bytes, NULL),
                   "copy to the device");
        perf_check(perf_devices()->stream_sync(NULL), "copy to the device");
    }
    free(view->host);
}
