/* cpu.h: what the processor can do, asked once.
 */
#ifndef CCL_BASE_CPU_H
#define CCL_BASE_CPU_H

enum ccl_cpu_feature {
    CCL_CPU_AVX2,   /* with F16C */
    CCL_CPU_AVX512, /* F, BW, DQ and VL */
};

/* True when processor and operating system support the feature and CHORUS_CPU does not hide it. */
int ccl_cpu_has(enum ccl_cpu_feature feature);

#endif
