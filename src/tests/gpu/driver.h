/* What the tests of this folder need of a GPU beyond chorus.h: contexts, kinds of streams,
 * captures, by functions of the driver that are looked up by name. A call that fails ends the case.
 */
#ifndef GPU_DRIVER_H
#define GPU_DRIVER_H

#include "core/kit.h"

/* Hook for test_prepare: GPUs that several ranks may share, a context and what it loads. */
void gpu_prepare(void);

#define GPU_TEST_MAIN(table)                                                                       \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        test_settle = test_lib_settle;                                                             \
        test_prepare = gpu_prepare;                                                                \
        return test_main(argc, argv, (table), TEST_COUNT(table));                                  \
    }

/* The context of this thread; NULL: none. */
void *gpu_context(void);
void gpu_context_set(void *context);
/* One beside the primary one of device 0; it is current afterwards. */
void *gpu_context_create(void);
void gpu_context_destroy(void *context);

/* One that waits for the default stream, unlike those of the device table. */
cudaStream_t gpu_stream_create(void);
/* The default streams: of all threads, and of the calling one. */
#define GPU_LEGACY     ((cudaStream_t)1)
#define GPU_PER_THREAD ((cudaStream_t)2)

/* From begin to end what comes on the stream becomes a graph that can be launched. */
void gpu_capture_begin(cudaStream_t stream);
void *gpu_capture_end(cudaStream_t stream);
void gpu_graph_launch(void *graph, cudaStream_t stream);
void gpu_graph_destroy(void *graph);

#endif
