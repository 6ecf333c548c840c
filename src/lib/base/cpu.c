/* cpu.c: instruction sets of an x86-64 processor, of which other machines have none, and the size
 * of the last-level cache. */
#include "base/cpu.h"

#include "base/log.h"
#include "base/param.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>

/* A name that __builtin_cpu_supports of older compilers does not know. */
static int has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C) != 0;
}
#endif

/* CHORUS_CPU names the best set that may be used; tests compare the sets with each other. */
static int most_allowed(void)
{
    static const char *const names[] = {"base", "avx2", "avx512"};
    const char *text = ccl_param_text(CCL_PARAM_CPU);
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) return i;
    if (strcmp(text, "auto") != 0)
        ccl_log(CCL_LOG_WARN, CCL_LOG_ENV, "CHORUS_CPU=%s is none of auto, base, avx2, avx512",
                text);
    return 2;
}

int ccl_cpu_has(enum ccl_cpu_feature feature)
{
#ifdef __x86_64__
    int allowed = most_allowed();
    if (feature == CCL_CPU_AVX2)
        return allowed >= 1 && __builtin_cpu_supports("avx2") && has_f16c();
    return allowed >= 2 && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
#else
    (void)feature;
    return most_allowed() < 0;
#endif
}

/* Where the system tells nothing. */
enum { USUAL_CACHE_BYTES = 16 << 20 };

/* Caches of the first core by their index, the last one the largest: "32768K". What the C library
 * tells is that of all cores together on some machines. */
static uint64_t ask_system(void)
{
    uint64_t bytes = 0;
    for (int index = 3; index >= 2 && bytes == 0; index--) {
        char path[64], line[32] = "", *end;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
        FILE *file = fopen(path, "re");
        if (file == NULL) continue;
        if (fgets(line, sizeof line, file) != NULL) {
            bytes = strtoull(line, &end, 10);
            bytes <<= *end == 'K' ? 10 : *end == 'M' ? 20 : 0;
        }
        fclose(file);
    }
    return bytes > 0 ? bytes : USUAL_CACHE_BYTES;
}

uint64_t ccl_cpu_cache_bytes(void)
{
    static _Atomic uint64_t known;
    /* Relaxed: whoever asks, it is the same number. */
    uint64_t bytes = atomic_load_explicit(&known, memory_order_relaxed);
    if (bytes > 0) return bytes;
    bytes = (uint64_t)ccl_param_int(CCL_PARAM_CACHE_BYTES);
    if (bytes == 0) bytes = ask_system();
    atomic_store_explicit(&known, bytes, memory_order_relaxed);
    return bytes;
}
