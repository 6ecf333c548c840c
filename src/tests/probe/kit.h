/* What the probes share: checks that name the failing call, the clock, medians, entry points of the
 * driver, processes with a barrier. A probe answers one question about CUDA with a table; it runs
 * in a process of its own whose time main.cu limits, so it may hang or die, and it sees no code of
 * the library. No CUDA call comes before the fork of a probe that needs several processes.
 */
#ifndef CHORUS_TESTS_PROBE_KIT_H
#define CHORUS_TESTS_PROBE_KIT_H

#include <cuda.h>
#include <cuda_runtime.h>

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PROBE_STRING_(x) #x
#define PROBE_STRING(x)  PROBE_STRING_(x)

/* Ends the probe, and every process of it, when the call fails. */
#define MUST(call) probe_check(call, #call, __FILE__, __LINE__)
void probe_check(cudaError_t rc, const char *call, const char *file, int line);
void probe_check(CUresult rc, const char *call, const char *file, int line);

/* The name of a result, "ok" for success, without the prefix that all have. */
const char *probe_name(cudaError_t rc);
const char *probe_name(CUresult rc);

/* Entry points of the driver; a NULL one is missing in this driver. */
#define PROBE_ENTRIES(X)                                                                           \
    X(cuCtxGetCurrent)                                                                             \
    X(cuCtxGetDevice)                                                                              \
    X(cuCtxPopCurrent)                                                                             \
    X(cuCtxPushCurrent)                                                                            \
    X(cuDeviceGetAttribute)                                                                        \
    X(cuEventRecord)                                                                               \
    X(cuGetErrorName)                                                                              \
    X(cuLaunchKernel)                                                                              \
    X(cuMemAddressFree)                                                                            \
    X(cuMemAddressReserve)                                                                         \
    X(cuMemCreate)                                                                                 \
    X(cuMemExportToShareableHandle)                                                                \
    X(cuMemGetAddressRange)                                                                        \
    X(cuMemGetHandleForAddressRange)                                                               \
    X(cuMemImportFromShareableHandle)                                                              \
    X(cuMemMap)                                                                                    \
    X(cuMemRelease)                                                                                \
    X(cuMemRetainAllocationHandle)                                                                 \
    X(cuMemSetAccess)                                                                              \
    X(cuMemUnmap)                                                                                  \
    X(cuPointerGetAttribute)                                                                       \
    X(cuPointerGetAttributes)                                                                      \
    X(cuStreamGetCtx)                                                                              \
    X(cuStreamWaitEvent)                                                                           \
    X(cuStreamWaitValue32)                                                                         \
    X(cuStreamWriteValue32)

struct probe_driver {
#define X(name) decltype(&::name) name;
    PROBE_ENTRIES(X)
#undef X
};
extern struct probe_driver drv;

/* Takes device 0 with a context and fills drv. The first CUDA call of every process. */
void probe_open(void);

double probe_now_us(void);
void probe_sleep_us(unsigned us);
/* Sorts the values and returns the middle one. */
double probe_median(double *values, int n);

/* Waits for the stream up to limit_ms; false: it is still busy then. */
bool probe_drained(cudaStream_t stream, int limit_ms);

/* Memory that is zero and that all processes of the probe share. */
void *probe_shared(size_t bytes);
/* Forks to n processes and returns the number of this one, 0 in the first. */
int probe_fork(int n);
/* Waits until all n processes of probe_fork are here. */
void probe_meet(int n);
/* The others end; the first waits for them and returns. */
void probe_join(int me);

/* Memory by the calls for virtual memory, exportable as a file descriptor or not at all. */
CUmemGenericAllocationHandle probe_chunk(size_t bytes, bool exportable);
CUdeviceptr probe_reserve(size_t bytes);
void probe_map(CUdeviceptr at, size_t bytes, CUmemGenericAllocationHandle chunk);

/* The probes, one a file; see the table in main.cu for what arg means. */
void probe_args(int arg);
void probe_blocks(int arg);
void probe_calls(int arg);
void probe_copies(int arg);
void probe_gates(int arg);
void probe_graphs(int arg);
void probe_identity(int arg);
void probe_ipc(int arg);
void probe_joins(int arg);
void probe_locks(int arg);
void probe_memops(int arg);
void probe_queues(int arg);
void probe_threads(int arg);
void probe_words(int arg);

#endif
