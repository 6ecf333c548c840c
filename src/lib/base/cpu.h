/* cpu.h: what the processor can do, and how much it caches; asked once.
 */
#ifndef CCL_BASE_CPU_H
#define CCL_BASE_CPU_H

#include <stdint.h>

enum ccl_cpu_feature {
    CCL_CPU_AVX2,   /* with F16C */
    CCL_CPU_AVX512, /* F, BW, DQ and VL */
};

/* True when processor and operating system support the feature and CHORUS_CPU does not hide it. */
int ccl_cpu_has(enum ccl_cpu_feature feature);

/* Bytes of a last-level cache, or what CHORUS_CACHE_BYTES says. */
uint64_t ccl_cpu_cache_bytes(void);

#endif
