/* Sizes: parser, printer and series. Called by the option parser and the run; no locale and no
 * floating-point text function is involved, so that a comma locale changes nothing.
 */
#include "harness/sizes.h"

#include "harness/options.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_AFTER_ZERO = 8 };

const char *perf_decimal_parse(const char *text, uint64_t *whole, double *fraction)
{
    const char *at = text;
    int digits = 0;

    *whole = 0;
    *fraction = 0;
    for (; isdigit((unsigned char)*at); at++, digits++)
        if (__builtin_mul_overflow(*whole, 10, whole) ||
            __builtin_add_overflow(*whole, (uint64_t)(*at - '0'), whole))
            return NULL;
    if (*at == '.') {
        uint64_t numerator = 0, denominator = 1;

        for (at++; isdigit((unsigned char)*at); at++, digits++) {
            if (denominator >= 1000000000000000u) continue; /* beyond what a double holds */
            numerator = numerator * 10 + (uint64_t)(*at - '0');
            denominator *= 10;
        }
        *fraction = (double)numerator / (double)denominator;
    }
    return digits ? at : NULL;
}

/* Bits that a suffix shifts by: "", "b", "k", "kb", "kib", any case; -1 for anything else. */
static int parse_suffix(const char *suffix)
{
    static const char letters[] = "kmgt";
    int shift = 0;

    if (*suffix && strchr(letters, tolower((unsigned char)*suffix))) {
        shift = 10 * (int)(strchr(letters, tolower((unsigned char)*suffix)) - letters + 1);
        suffix++;
        if (tolower((unsigned char)*suffix) == 'i' && tolower((unsigned char)suffix[1]) == 'b')
            suffix++;
    }
    if (tolower((unsigned char)*suffix) == 'b') suffix++;
    return *suffix ? -1 : shift;
}

int perf_size_parse(const char *text, uint64_t *bytes, const char **error)
{
    uint64_t whole;
    double fraction;
    const char *suffix = perf_decimal_parse(text, &whole, &fraction);
    int shift;

    *bytes = 0;
    *error = "is no size (a number, then k, m, g or t)";
    if (!suffix) {
        if (isdigit((unsigned char)*text)) *error = "is too large a size";
        return 0;
    }
    shift = parse_suffix(suffix);
    if (shift < 0) return 0;
    *error = "is too large a size";
    if (whole > (uint64_t)INT64_MAX >> shift) return 0;
    *bytes = (whole << shift) + (uint64_t)(fraction * (double)(UINT64_C(1) << shift));
    *error = NULL;
    return 1;
}

void perf_size_format(uint64_t size_bytes, char *text, int text_bytes)
{
    static const char letters[] = "KMGT";
    int unit = -1;
    uint64_t one = 1;

    while (unit < 3 && size_bytes >= one * 1024) {
        one *= 1024;
        unit++;
    }
    if (unit < 0)
        snprintf(text, (size_t)text_bytes, "%" PRIu64, size_bytes);
    else if (size_bytes % one == 0)
        snprintf(text, (size_t)text_bytes, "%" PRIu64 "%c", size_bytes / one, letters[unit]);
    else
        snprintf(text, (size_t)text_bytes, "%" PRIu64 ".%" PRIu64 "%c", size_bytes / one,
                 size_bytes % one * 10 / one, letters[unit]);
}

void perf_sizes_start(struct perf_sizes *sizes, const struct perf_options *options)
{
    sizes->next_bytes = options->min_bytes;
    sizes->max_bytes = options->max_bytes;
    sizes->step_bytes = options->step_bytes;
    sizes->factor = options->step_factor;
    sizes->done = sizes->next_bytes > sizes->max_bytes;
}

/* The size after `size`, always greater; UINT64_MAX when there is no such number. */
static uint64_t size_after(const struct perf_sizes *sizes, uint64_t size)
{
    uint64_t after;
    double product;

    if (sizes->factor <= 0)
        return __builtin_add_overflow(size, sizes->step_bytes, &after) ? UINT64_MAX : after;
    if (!size) return FIRST_AFTER_ZERO;
    product = (double)size * sizes->factor;
    if (product >= (double)INT64_MAX) return UINT64_MAX;
    after = (uint64_t)product;
    return after > size ? after : size + 1;
}

int perf_sizes_next(struct perf_sizes *sizes, uint64_t *size_bytes)
{
    uint64_t after;

    if (sizes->done) return 0;
    *size_bytes = sizes->next_bytes;
    after = size_after(sizes, sizes->next_bytes);
    sizes->done = after > sizes->max_bytes || after <= sizes->next_bytes;
    sizes->next_bytes = after;
    return 1;
}
