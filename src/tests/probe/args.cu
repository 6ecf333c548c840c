/* Probe: what the bytes of arguments and the number of CTAs add to a launch, and what launching
 * through the other calls saves. Queued: the time per launch of 1,000, once as the host pays it and
 * once until the device is done. Alone: launch until synchronized.
 */
#include "probe/kit.h"

#include <string.h>

enum { QUEUED = 1000, ALONE = 100, REPEATS = 7, THREADS = 512 };

template <int BYTES> struct block {
    uint32_t *out;
    uint32_t word[BYTES / 4 - 2];
};

template <int BYTES>
static __global__ void __launch_bounds__(THREADS)
    read_args(const __grid_constant__ block<BYTES> args)
{
    if (threadIdx.x == 0 && args.word[blockIdx.x % (BYTES / 4 - 2)] != 0) *args.out = 1;
}

template <int BYTES> static void time_row(cudaStream_t stream, uint32_t *out, int ctas)
{
    block<BYTES> args;
    double host[REPEATS], queued[REPEATS], alone[ALONE];
    memset(&args, 0, sizeof args);
    args.out = out;
    for (int r = 0; r < REPEATS; r++) {
        MUST(cudaStreamSynchronize(stream));
        double began_us = probe_now_us();
        for (int i = 0; i < QUEUED; i++) read_args<BYTES><<<ctas, THREADS, 0, stream>>>(args);
        host[r] = (probe_now_us() - began_us) / QUEUED;
        MUST(cudaStreamSynchronize(stream));
        queued[r] = (probe_now_us() - began_us) / QUEUED;
    }
    for (int i = 0; i < ALONE; i++) {
        double began_us = probe_now_us();
        read_args<BYTES><<<ctas, THREADS, 0, stream>>>(args);
        MUST(cudaStreamSynchronize(stream));
        alone[i] = probe_now_us() - began_us;
    }
    printf("   %6d %5d %8.2f %8.2f %8.2f\n", BYTES, ctas, probe_median(host, REPEATS),
           probe_median(queued, REPEATS), probe_median(alone, ALONE));
}

void probe_args(int arg)
{
    cudaStream_t stream;
    uint32_t *out;
    (void)arg;
    probe_open();
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaMalloc(&out, 4));
    printf("    bytes  CTAs  host us  queued    alone\n");
    for (int ctas : {1, 264}) {
        time_row<16>(stream, out, ctas);
        time_row<256>(stream, out, ctas);
        time_row<1024>(stream, out, ctas);
        time_row<4000>(stream, out, ctas);
#if CUDART_VERSION >= 12010
        time_row<16000>(stream, out, ctas);
#endif
    }
    MUST(cudaGetLastError());
}
