/* Probe: another process's memory is mapped here and a kernel reads it in a loop; then its owner
 * frees it, or is killed. Is the mapping still readable, does its contents stay, when does the
 * memory come back? For CUDA IPC handles and for exported chunks of virtual memory. The importer is
 * the parent: it kills, and it prints what it sees.
 */
#include "probe/kit.h"

#include <atomic>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CTAS = 132, THREADS = 256, LIMIT_MS = 10000 };
#define BYTES       ((size_t)512 << 20)
#define PATTERN     0x5eed5eedu
#define NEW_PATTERN 0x0d0d0d0du

enum phase { START, EXPORTED, MAPPED, ENDED, OVER };

struct shared {
    std::atomic<int> phase;
    cudaIpcMemHandle_t handle;
    double free_us;
    size_t free_before, free_after;
    bool same_address;
};

struct counts {
    unsigned long long wrong, passes;
};

static __global__ void fill(unsigned *words, size_t n, unsigned value)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x)
        words[i] = value;
}

/* Reads all words again and again until told to stop; counts those that are not as they were. */
static __global__ void read_loop(const unsigned *words, size_t n, volatile uint32_t *stop,
                                 struct counts *counts)
{
    __shared__ uint32_t stopped;
    unsigned long long wrong = 0;
    for (int pass = 0; pass < 100000; pass++) {
        for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
             i += (size_t)gridDim.x * blockDim.x)
            wrong += *(volatile const unsigned *)(words + i) != PATTERN;
        if (threadIdx.x == 0) stopped = *stop;
        __syncthreads();
        if (threadIdx.x == 0 && blockIdx.x == 0) counts->passes++;
        if (stopped) break;
        __syncthreads();
    }
    if (wrong != 0) atomicAdd(&counts->wrong, wrong);
}

static void send_fd(int socket, int fd)
{
    char byte = 0, control[CMSG_SPACE(sizeof fd)] = {};
    struct iovec part = {&byte, 1};
    struct msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    if (sendmsg(socket, &message, 0) < 0) printf("   sendmsg failed\n");
}

static int receive_fd(int socket)
{
    int fd = -1;
    char byte, control[CMSG_SPACE(sizeof fd)] = {};
    struct iovec part = {&byte, 1};
    struct msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (recvmsg(socket, &message, 0) > 0)
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

/* False: the other process is not there after the limit. */
static bool await(struct shared *shared, int phase, int limit_ms)
{
    double end_us = probe_now_us() + limit_ms * 1e3;
    while (shared->phase < phase && probe_now_us() < end_us) probe_sleep_us(200);
    return shared->phase >= phase;
}

static size_t free_bytes(void)
{
    size_t now, total;
    MUST(cudaMemGetInfo(&now, &total));
    return now;
}

/* The owner: exports, and unless it is killed, frees and fills new memory of the same size. */
static void export_memory(struct shared *shared, int socket, bool chunks)
{
    void *memory, *again;
    CUmemGenericAllocationHandle chunk = 0;
    probe_open();
    if (chunks) {
        int fd;
        chunk = probe_chunk(BYTES, true);
        memory = (void *)probe_reserve(BYTES);
        probe_map((CUdeviceptr)memory, BYTES, chunk);
        MUST(drv.cuMemExportToShareableHandle(&fd, chunk, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                              0));
        send_fd(socket, fd);
        close(fd);
    } else {
        MUST(cudaMalloc(&memory, BYTES));
        MUST(cudaIpcGetMemHandle(&shared->handle, memory));
    }
    fill<<<CTAS, THREADS>>>((unsigned *)memory, BYTES / 4, PATTERN);
    MUST(cudaDeviceSynchronize());
    shared->phase = EXPORTED;
    await(shared, MAPPED, LIMIT_MS);
    probe_sleep_us(50000);
    shared->free_before = free_bytes();
    double began_us = probe_now_us();
    if (chunks) {
        MUST(drv.cuMemUnmap((CUdeviceptr)memory, BYTES));
        MUST(drv.cuMemRelease(chunk));
        MUST(drv.cuMemAddressFree((CUdeviceptr)memory, BYTES));
    } else {
        MUST(cudaFree(memory));
    }
    shared->free_us = probe_now_us() - began_us;
    shared->free_after = free_bytes();
    MUST(cudaMalloc(&again, BYTES));
    shared->same_address = again == memory;
    fill<<<CTAS, THREADS>>>((unsigned *)again, BYTES / 4, NEW_PATTERN);
    MUST(cudaDeviceSynchronize());
    MUST(cudaFree(again));
    shared->phase = ENDED;
    await(shared, OVER, LIMIT_MS);
    _exit(0);
}

struct import {
    void *memory;
    CUmemGenericAllocationHandle chunk;
    int fd;
};

static void open_import(struct import *import, struct shared *shared, bool chunks)
{
    double began_us = probe_now_us();
    if (chunks) {
        MUST(drv.cuMemImportFromShareableHandle(&import->chunk, (void *)(intptr_t)import->fd,
                                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        import->memory = (void *)probe_reserve(BYTES);
        probe_map((CUdeviceptr)import->memory, BYTES, import->chunk);
    } else {
        MUST(cudaIpcOpenMemHandle(&import->memory, shared->handle, cudaIpcMemLazyEnablePeerAccess));
    }
    printf("   mapped in %.0f us\n", probe_now_us() - began_us);
}

static void close_import(struct import *import, bool chunks)
{
    double began_us = probe_now_us();
    if (chunks) {
        MUST(drv.cuMemUnmap((CUdeviceptr)import->memory, BYTES));
        MUST(drv.cuMemRelease(import->chunk));
        MUST(drv.cuMemAddressFree((CUdeviceptr)import->memory, BYTES));
        close(import->fd);
    } else {
        printf("   cudaIpcCloseMemHandle: %s\n", probe_name(cudaIpcCloseMemHandle(import->memory)));
        cudaGetLastError();
    }
    printf("   closed in %.0f us\n", probe_now_us() - began_us);
}

/* Says how the mapping may be identified and handed on. */
static void describe_import(struct import *import)
{
    unsigned long long id = 0;
    cudaIpcMemHandle_t handle;
    CUmemGenericAllocationHandle chunk;
    CUresult rc =
        drv.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, (CUdeviceptr)import->memory);
    printf("   the mapping here: BUFFER_ID %s %llu, cudaIpcGetMemHandle %s,", probe_name(rc), id,
           probe_name(cudaIpcGetMemHandle(&handle, import->memory)));
    cudaGetLastError();
    rc = drv.cuMemRetainAllocationHandle(&chunk, import->memory);
    printf(" cuMemRetainAllocationHandle %s\n", probe_name(rc));
    if (rc == CUDA_SUCCESS) MUST(drv.cuMemRelease(chunk));
}

static void say_reads(const char *when, cudaStream_t stream, struct counts *counts)
{
    struct counts seen = {};
    cudaError_t rc = cudaStreamSynchronize(stream);
    if (rc == cudaSuccess) rc = cudaMemcpy(&seen, counts, sizeof seen, cudaMemcpyDeviceToHost);
    if (rc == cudaSuccess) rc = cudaMemset(counts, 0, sizeof *counts);
    printf("   %s: %s, %llu passes, %llu wrong words\n", when, probe_name(rc), seen.passes,
           seen.wrong);
    MUST(rc);
}

struct reader {
    cudaStream_t stream;
    uint32_t *stop;
    struct counts *counts;
};

static void start_reading(struct reader *r, struct import *import, bool once)
{
    *(volatile uint32_t *)r->stop = once;
    read_loop<<<CTAS, THREADS, 0, r->stream>>>((const unsigned *)import->memory, BYTES / 4, r->stop,
                                               r->counts);
}

static void open_reader(struct reader *r)
{
    MUST(cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking));
    MUST(cudaHostAlloc(&r->stop, 4096, cudaHostAllocMapped));
    MUST(cudaMalloc(&r->counts, sizeof *r->counts));
    MUST(cudaMemset(r->counts, 0, sizeof *r->counts));
}

static void end_exporter(struct shared *shared, struct reader *reader, pid_t exporter, bool kills)
{
    if (kills) {
        probe_sleep_us(20000);
        double began_us = probe_now_us();
        kill(exporter, SIGKILL);
        waitpid(exporter, NULL, 0);
        printf("   exporter killed and gone after %.0f us\n", probe_now_us() - began_us);
    } else {
        if (!await(shared, ENDED, 3000)) {
            printf("   the free is not done after 3 s while the kernel reads\n");
            *(volatile uint32_t *)reader->stop = 1;
            await(shared, ENDED, LIMIT_MS);
        }
        printf(
            "   exporter freed in %.0f us, its free memory grew by %lld MiB; same address for the"
            " next: %s\n",
            shared->free_us, ((long long)shared->free_after - (long long)shared->free_before) >> 20,
            shared->same_address ? "yes" : "no");
    }
}

/* New memory filled with another pattern must not be the memory that is still mapped. */
static void overwrite_free_memory(struct reader *r)
{
    void *memory;
    MUST(cudaMalloc(&memory, BYTES));
    fill<<<CTAS, THREADS, 0, r->stream>>>((unsigned *)memory, BYTES / 4, NEW_PATTERN);
    MUST(cudaStreamSynchronize(r->stream));
    MUST(cudaFree(memory));
}

static void try_again(struct shared *shared, bool chunks)
{
    void *memory;
    if (chunks) return;
    cudaError_t rc = cudaIpcOpenMemHandle(&memory, shared->handle, cudaIpcMemLazyEnablePeerAccess);
    printf("   the old handle opened anew: %s\n", probe_name(rc));
    cudaGetLastError();
    if (rc == cudaSuccess) cudaIpcCloseMemHandle(memory);
}

/* kind: bit 0 the exporter is killed, bit 1 chunks of virtual memory. */
void probe_ipc(int kind)
{
    bool kills = (kind & 1) != 0, chunks = (kind & 2) != 0;
    struct shared *shared = (struct shared *)probe_shared(sizeof *shared);
    struct import import = {NULL, 0, -1};
    struct reader reader;
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) _exit(1);
    fflush(stdout);
    pid_t exporter = fork();
    if (exporter == 0) export_memory(shared, sockets[1], chunks);
    probe_open();
    open_reader(&reader);
    await(shared, EXPORTED, LIMIT_MS);
    if (chunks) import.fd = receive_fd(sockets[0]);
    open_import(&import, shared, chunks);
    describe_import(&import);
    size_t mapped_free = free_bytes();
    start_reading(&reader, &import, true);
    say_reads("read before", reader.stream, reader.counts);
    start_reading(&reader, &import, false);
    if (!kills) shared->phase = MAPPED;
    end_exporter(shared, &reader, exporter, kills);
    probe_sleep_us(100000);
    *(volatile uint32_t *)reader.stop = 1;
    say_reads("read across the end", reader.stream, reader.counts);
    long long after_end = (long long)free_bytes() - (long long)mapped_free;
    overwrite_free_memory(&reader);
    start_reading(&reader, &import, true);
    say_reads("read after the end", reader.stream, reader.counts);
    try_again(shared, chunks);
    close_import(&import, chunks);
    long long after_close = (long long)free_bytes() - (long long)mapped_free;
    printf("   free memory of the device against while it was mapped: %+lld MiB after the end,"
           " %+lld MiB after the close, of %zu MiB\n",
           after_end >> 20, after_close >> 20, BYTES >> 20);
    shared->phase = OVER;
}
