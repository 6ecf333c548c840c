/* A plain simulation of collectives on host memory; see reference.h. */
#include "harness/reference.h"

#include "harness/types.h"

#include <stdlib.h>
#include <string.h>

static size_t send_bytes_of(const struct perf_reference *world)
{
    return world->shape.send_elems * world->shape.type_bytes;
}

int perf_reference_open(struct perf_reference *world)
{
    size_t bytes = send_bytes_of(world);
    world->send = malloc((size_t)world->shape.nranks * bytes + 1);
    if (!world->send) return -1;
    struct perf_fill fill = world->fill;
    for (fill.rank = 0; fill.rank < world->shape.nranks; fill.rank++)
        perf_fill(&fill, 0, world->shape.send_elems, world->send + (size_t)fill.rank * bytes);
    return 0;
}

void perf_reference_close(struct perf_reference *world)
{
    free(world->send);
    world->send = NULL;
}

uint64_t perf_reference_reduce(const struct perf_fill *fill, const uint64_t *bits, const int *order,
                               int norder)
{
    const struct perf_number *number = &perf_numbers[fill->type];
    uint64_t result = 0;
    for (int i = 0; i < norder; i++) {
        int rank = order[i];
        uint64_t value = perf_number_scale(number, fill->op, rank, fill->nranks, bits[rank]);
        result = i == 0 ? value : perf_number_combine(number, fill->op, result, value);
    }
    return perf_number_finish(number, fill->op, fill->nranks, result);
}

static void reduce_run(const struct perf_reference *world, const struct perf_run *run, uint8_t *to)
{
    const struct perf_number *number = &perf_numbers[world->fill.type];
    int nranks = world->shape.nranks, norder = world->order ? world->norder : nranks;
    uint64_t *bits = malloc((size_t)nranks * sizeof(*bits));
    int *ascending = malloc((size_t)nranks * sizeof(*ascending));
    if (!bits || !ascending) abort();
    for (int rank = 0; rank < nranks; rank++) ascending[rank] = rank;
    const int *order = world->order ? world->order : ascending;
    for (size_t i = 0; i < run->elems; i++) {
        const uint8_t *from = world->send + (run->from + i) * number->bytes;
        for (int rank = 0; rank < nranks; rank++)
            bits[rank] = perf_number_load(number, from + (size_t)rank * send_bytes_of(world));
        uint64_t value = perf_reference_reduce(&world->fill, bits, order, norder);
        perf_number_store(number, value, to + i * number->bytes);
    }
    free(ascending);
    free(bits);
}

void perf_reference_run(const struct perf_reference *world, int rank, uint8_t *recv)
{
    struct perf_shape shape = world->shape;
    shape.rank = rank;
    int most = 2 * shape.nranks + 2;
    struct perf_run *runs = malloc((size_t)most * sizeof(*runs));
    if (!runs) abort();
    int nruns = world->pattern->runs(&shape, runs, most);
    for (int i = 0; i < nruns; i++) {
        uint8_t *to = recv + runs[i].first * shape.type_bytes;
        if (runs[i].source == PERF_REDUCED) {
            reduce_run(world, &runs[i], to);
        } else if (runs[i].source >= 0) {
            const uint8_t *from = world->send + (size_t)runs[i].source * send_bytes_of(world);
            memcpy(to, from + runs[i].from * shape.type_bytes, runs[i].elems * shape.type_bytes);
        }
    }
    free(runs);
}
