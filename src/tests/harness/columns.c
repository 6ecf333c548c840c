/* Which inputs: for each type and operator, values whose reduction is exact in any order.
 *
 * values.c calls it. Sums use small multiples of a power of two whose absolute values add up to
 * less than the precision; products use powers of two within the exponent range, signs and one
 * mantissa; integers wrap; the least and the greatest value have one owner. Every rank
 * contributes to a column where the precision allows, else to one of the next few columns.
 */
#include "harness/columns.h"

#include "harness/options.h"
#include "harness/types.h"
#include "harness/values.h"

#include <math.h>

struct maker {
    struct perf_column_values *values;
    const struct perf_number *number;
    uint64_t salt;
    int nranks, turn; /* turn: the rank that comes first in this column */
};

static uint64_t draw(const struct maker *maker, int rank, int what)
{
    uint64_t where = (uint64_t)maker->values->column << 32 | (uint64_t)rank << 8 | (uint64_t)what;
    return perf_mix(perf_mix(where) ^ maker->salt);
}

/* Position of a rank in this column's order. */
static int place_of(const struct maker *maker, int rank)
{
    return (rank + maker->turn) % maker->nranks;
}

static double draw_sign(const struct maker *maker, int rank)
{
    return draw(maker, rank, 1) & 1 ? -1 : 1;
}

/* An exponent for the whole column, in [least, most] where that is not empty, else `most`. */
static int draw_exponent(const struct maker *maker, int least, int most)
{
    if (least < -8) least = -8;
    if (most > 8) most = 8;
    if (least >= most) return most;
    return least + (int)(draw(maker, maker->nranks, 2) % (uint64_t)(most - least + 1));
}

static int log2_of(int nranks)
{
    return (int)floor(log2((double)nranks));
}

static void set_input(struct maker *maker, int rank, double value)
{
    maker->values->inputs[rank] = perf_number_encode(maker->number, value);
}

/* Sums: contributions are multiples m of one unit. The sum of all |m|, with one rank counted
 * twice, stays below 2^precision: then no partial sum is rounded, nor is a doubled rank's. */
static void make_sum(struct maker *maker)
{
    const struct perf_number *number = maker->number;
    int op = maker->values->op, nranks = maker->nranks;
    uint64_t room = (uint64_t)1 << number->precision;
    uint64_t most = room / ((uint64_t)nranks + 1);
    int ncontributors = most > 0 ? nranks : (int)room - 1;
    if (most == 0) most = 1;
    maker->turn = (int)(maker->values->column * (unsigned)ncontributors % (unsigned)nranks);
    int least_exp = number->min_exp + (op == PERF_OP_MULSUM ? 2 : 0);
    int most_exp = number->max_exp - number->precision - (op == PERF_OP_MULSUM ? 1 : 0);
    if (op == ncclAvg) most_exp -= log2_of(nranks);
    int exponent = draw_exponent(maker, least_exp, most_exp);
    double sum = 0;
    for (int rank = 0; rank < nranks; rank++) {
        double part = 0, factor = 1;
        if (place_of(maker, rank) < ncontributors)
            part =
                ldexp((double)(1 + draw(maker, rank, 0) % most), exponent) * draw_sign(maker, rank);
        if (op == ncclAvg) factor = 1.0 / nranks;
        if (op == PERF_OP_MULSUM)
            factor = perf_number_decode(number, perf_number_scalar(number, rank));
        /* The factor is a power of two; adding zero turns a negative zero into zero. */
        set_input(maker, rank, part / factor + 0.0);
        sum += part;
    }
    maker->values->reduced = perf_number_encode(number, sum);
}

/* Average over a number of ranks that is no power of two: 1/n is rounded, so that sums of
 * scaled values are in general rounded again. Two equal values are the exception. */
static void make_rounded_average(struct maker *maker)
{
    const struct perf_number *number = maker->number;
    int shift = number->precision - 1;
    maker->turn = (int)(maker->values->column * 2 % (unsigned)maker->nranks);
    uint64_t most = (uint64_t)1 << shift;
    int exponent = draw_exponent(maker, -2, 6);
    double mantissa = (double)(most + draw(maker, maker->nranks, 3) % most);
    double value = ldexp(mantissa, exponent - shift) * draw_sign(maker, maker->nranks);
    for (int rank = 0; rank < maker->nranks; rank++)
        set_input(maker, rank, place_of(maker, rank) < 2 ? value : 0);
    uint64_t bits = perf_number_encode(number, value);
    uint64_t scaled = perf_number_scale(number, ncclAvg, 0, maker->nranks, bits);
    maker->values->reduced = perf_number_combine(number, ncclSum, scaled, scaled);
}

/* Products: one rank has a full mantissa, some have a power of two within a budget that no
 * partial product exceeds, the rest are -1. */
static void make_product(struct maker *maker)
{
    const struct perf_number *number = maker->number;
    int shift = number->precision - 1, budget = -number->min_exp;
    if (budget > number->max_exp - 1) budget = number->max_exp - 1;
    if (budget > 16) budget = 16;
    int largest = maker->nranks <= budget ? budget / maker->nranks : 1;
    maker->turn = (int)(maker->values->column % (unsigned)maker->nranks);
    double product = 1;
    for (int rank = 0; rank < maker->nranks; rank++) {
        int place = place_of(maker, rank);
        double value = -1;
        if (place == 0) {
            uint64_t hidden = (uint64_t)1 << shift;
            uint64_t mantissa = hidden + 1 + draw(maker, rank, 0) % (hidden - 1);
            value = ldexp((double)mantissa, -shift) * draw_sign(maker, rank);
        } else if (place <= budget) {
            int exponent = 1 + (int)(draw(maker, rank, 0) % (uint64_t)largest);
            if (draw(maker, rank, 2) & 1) exponent = -exponent;
            value = ldexp(draw_sign(maker, rank), exponent);
        }
        set_input(maker, rank, value);
        product *= value;
    }
    maker->values->reduced = perf_number_encode(number, product);
}

/* The bits of the order-th value of a type, least first; floats without negative zero. */
static uint64_t nth_value(const struct perf_number *number, uint64_t order)
{
    uint64_t sign = (uint64_t)1 << (8 * number->bytes - 1);
    uint64_t all = sign | (sign - 1);
    if (number->kind == PERF_UNSIGNED) return order;
    if (number->kind == PERF_SIGNED) return (order - sign) & all;
    uint64_t middle = number->max_finite;
    return order >= middle ? order - middle : sign | (middle - order);
}

/* Extremes: one rank has the extreme value, from the outer half of the type's range; the others
 * have any values further in. */
static void make_extreme(struct maker *maker)
{
    const struct perf_number *number = maker->number;
    uint64_t sign = (uint64_t)1 << (8 * number->bytes - 1);
    uint64_t last = number->kind == PERF_FLOAT ? 2 * number->max_finite : sign | (sign - 1);
    uint64_t extreme = last - draw(maker, maker->nranks, 3) % (last / 2);
    maker->turn = (int)(maker->values->column % (unsigned)maker->nranks);
    for (int rank = 0; rank < maker->nranks; rank++) {
        uint64_t order = draw(maker, rank, 0) % extreme;
        if (place_of(maker, rank) == 0) order = extreme;
        if (maker->values->op == ncclMin) order = last - order;
        maker->values->inputs[rank] = nth_value(number, order);
        if (place_of(maker, rank) == 0) maker->values->reduced = maker->values->inputs[rank];
    }
}

/* Integers: any values; they wrap the same in any order. None is neutral. */
static void make_integer(struct maker *maker)
{
    const struct perf_number *number = maker->number;
    int op = maker->values->op;
    uint64_t sign = (uint64_t)1 << (8 * number->bytes - 1);
    uint64_t all = sign | (sign - 1), result = op == ncclProd ? 1 : 0;
    for (int rank = 0; rank < maker->nranks; rank++) {
        uint64_t value = draw(maker, rank, 0) & all;
        if (op == ncclProd) value |= 1; /* An even factor could hide the others. */
        if (value <= 1) value += 2;
        maker->values->inputs[rank] = value;
        value = perf_number_scale(number, op, rank, maker->nranks, value);
        result = perf_number_combine(number, op, result, value);
    }
    maker->values->reduced = perf_number_finish(number, op, maker->nranks, result);
}

static int is_repeat(const struct perf_column_values *values, const uint64_t *results)
{
    enum { NEAR = 16 };
    unsigned column = values->column;
    for (unsigned before = 1; before <= NEAR && before <= column; before++)
        if (results[column - before] == values->reduced) return 1;
    /* The table goes round: its last columns are neighbours of its first. */
    for (unsigned after = 0; after + PERF_COLUMNS <= column + NEAR; after++)
        if (results[after] == values->reduced) return 1;
    return 0;
}

void perf_column_make(struct perf_column_values *values, const uint64_t *results)
{
    enum { TRIES = 12 };
    struct maker maker = {
        .values = values, .number = &perf_numbers[values->type], .nranks = values->nranks};
    int is_float = maker.number->kind == PERF_FLOAT, op = values->op;
    int is_power_of_two = (values->nranks & (values->nranks - 1)) == 0;
    for (int try = 0; try < TRIES; try++) {
        maker.salt = perf_mix((uint64_t)values->type << 32 | (uint64_t)op << 24 |
                              (uint64_t)try << 16 | (uint64_t)values->nranks);
        if (op == ncclMax || op == ncclMin)
            make_extreme(&maker);
        else if (!is_float)
            make_integer(&maker);
        else if (op == ncclProd)
            make_product(&maker);
        else if (op == ncclAvg && !is_power_of_two)
            make_rounded_average(&maker);
        else
            make_sum(&maker);
        if (!is_repeat(values, results)) return;
    }
}
