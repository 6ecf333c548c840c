/* cpu.c: instruction sets of an x86-64 processor; other machines have none of these. */
#include "base/cpu.h"

#include "base/log.h"
#include "base/param.h"

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
