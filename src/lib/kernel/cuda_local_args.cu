/* cuda_local_args.cu: from a work to the launch arguments of the local path. Host code only. */
#include "kernel/cuda_local_args.h"

#include <string.h>

/* The one range of a side, of the buffers in `space`; NULL when there is more or something else. */
static const struct ccl_range *only_range(const struct ccl_range range[2], enum ccl_space space)
{
    int used = range[0].space != CCL_NONE ? 0 : 1;
    if (range[0].space != CCL_NONE && range[1].space != CCL_NONE) return NULL;
    return range[used].space == space ? &range[used] : NULL;
}

/* The buffers of a FOLD are those of neighbouring slots, at one block. */
static int is_row(const struct ccl_range *range)
{
    return range->count <= 1 || (range->hop == 1 && range->block_hop == 0);
}

int ccl_local_fits(const struct ccl_work *work)
{
    const struct ccl_body *body = &work->body[0];
    if (work->nexecs != 1 || work->nlocal != work->nslots || work->nlocal > CCL_MAX_LOCAL) return 0;
    if (body->npieces != 1) return 0;
    for (uint16_t i = 0; i < body->nsteps; i++) {
        const struct ccl_step *step = &body->steps[i];
        if (step->kind != CCL_FOLD && step->kind != CCL_MAP) return 0;
        const struct ccl_range *in = only_range(step->in, CCL_IN);
        const struct ccl_range *out = only_range(step->out, CCL_OUT);
        if (in == NULL || out == NULL || in->block < 0 || out->block < 0) return 0;
        if (step->kind == CCL_FOLD && (!is_row(in) || !is_row(out))) return 0;
    }
    return 1;
}

static uint16_t flags_of(const struct ccl_work *work, const struct ccl_step *step)
{
    if (step->kind == CCL_MAP) return CCL_LOCAL_MAP;
    int divides = work->flags & CCL_WORK_DIVIDE && step->flags & CCL_STEP_POST && work->divisor > 1;
    int scales = work->flags & CCL_WORK_SCALE;
    return (uint16_t)((divides ? CCL_LOCAL_DIVIDES : 0) | (scales ? CCL_LOCAL_SCALES : 0));
}

int ccl_local_copies(const struct ccl_work *work)
{
    const struct ccl_body *body = &work->body[0];
    for (uint16_t i = 0; i < body->nsteps; i++) {
        const struct ccl_step *step = &body->steps[i];
        uint16_t flags = flags_of(work, step);
        if (flags & CCL_LOCAL_MAP) continue;
        if (flags != 0 || only_range(step->in, CCL_IN)->count != 1) return 0;
    }
    return 1;
}

int ccl_local_writes_more(const struct ccl_work *work)
{
    const struct ccl_body *body = &work->body[0];
    for (uint16_t i = 0; i < body->nsteps; i++) {
        const struct ccl_step *step = &body->steps[i];
        if (only_range(step->in, CCL_IN)->count > only_range(step->out, CCL_OUT)->count) return 0;
    }
    return 1;
}

static struct ccl_local_range to_local(const struct ccl_range *range, int word)
{
    struct ccl_local_range local;
    local.first = (uint16_t)(range->first * CCL_LOCAL_WORDS + word);
    local.count = range->count;
    local.hop = (int16_t)(range->hop * CCL_LOCAL_WORDS);
    local.block = range->block;
    local.block_hop = range->block_hop;
    return local;
}

/* Copies the slots; returns the low address bits of all buffers. */
static uintptr_t add_slots(struct ccl_local_args *args, const struct ccl_work *work)
{
    uintptr_t low = 0;
    for (uint16_t i = 0; i < work->nlocal; i++) {
        const struct ccl_slot *slot = &work->local[i];
        uint64_t *words = &args->words[i * CCL_LOCAL_WORDS];
        words[CCL_LOCAL_IN] = (uintptr_t)slot->in;
        words[CCL_LOCAL_OUT] = (uintptr_t)slot->out;
        words[CCL_LOCAL_SCALAR_AT] = (uintptr_t)slot->scalar_at;
        words[CCL_LOCAL_SCALAR] = slot->scalar;
        low |= (uintptr_t)slot->in | (uintptr_t)slot->out;
    }
    return low;
}

/* Puts the pairs' lengths where their factors would be; returns the low bits of all lengths. */
static uintptr_t add_lengths(struct ccl_local_args *args, const struct ccl_work *work)
{
    uintptr_t low = 0;
    for (uint16_t i = 0; i < work->nlocal; i++) {
        args->words[i * CCL_LOCAL_WORDS + CCL_LOCAL_BYTES] = work->local[i].scalar;
        low |= (uintptr_t)work->local[i].scalar;
    }
    return low;
}

static int uses_blocks(const struct ccl_range *range)
{
    return range->block != 0 || range->block_hop != 0;
}

/* How all that is read and written is aligned. */
static void set_alignment(struct ccl_local_args *args, uintptr_t low, int has_blocks)
{
    if (has_blocks) low |= (uintptr_t)args->block_bytes;
    args->is_aligned = low % 16 == 0;
    if (!args->has_lengths) low |= (uintptr_t)args->block_bytes;
    low |= 4;
    args->elem_bytes = (uint8_t)(low & (~low + 1));
}

uint32_t ccl_local_fill(struct ccl_local_args *args, const struct ccl_work *work, uint32_t first,
                        uint32_t elem_bytes)
{
    const struct ccl_body *body = &work->body[0];
    memset(args, 0, offsetof(struct ccl_local_args, words));
    args->block_bytes = work->count_elems * elem_bytes;
    args->gates = work->gates;
    args->ngates = work->ngates;
    args->abort_word = work->abort_word;
    args->done = work->done;
    args->done_value = work->done_value;
    args->divisor = work->divisor;
    args->op = work->redop;
    args->has_lengths = (work->flags & CCL_WORK_LENGTHS) != 0;
    args->steps_at = work->nlocal * CCL_LOCAL_WORDS * (uint32_t)sizeof args->words[0];
    uintptr_t low = add_slots(args, work);
    if (args->has_lengths) low |= add_lengths(args, work);
    struct ccl_local_step *steps = (struct ccl_local_step *)((char *)args->words + args->steps_at);
    uint32_t room = (CCL_LOCAL_BODY_BYTES - args->steps_at) / (uint32_t)sizeof *steps, n = 0;
    int has_blocks = 0;
    args->pairs = 1;
    for (; n < room && first + n < body->nsteps; n++) {
        const struct ccl_step *step = &body->steps[first + n];
        const struct ccl_range *in = only_range(step->in, CCL_IN);
        const struct ccl_range *out = only_range(step->out, CCL_OUT);
        steps[n].flags = flags_of(work, step);
        steps[n].in = to_local(in, CCL_LOCAL_IN);
        steps[n].out = to_local(out, CCL_LOCAL_OUT);
        has_blocks |= uses_blocks(in) || uses_blocks(out);
        if (step->kind == CCL_MAP && in->count > args->pairs) args->pairs = in->count;
    }
    args->nunits = work->count_elems > 0 ? n * args->pairs : 0;
    set_alignment(args, low, has_blocks);
    return n;
}

static uint64_t tiles_of(uint64_t bytes, uint32_t tile_bytes)
{
    return (bytes + tile_bytes - 1) / tile_bytes;
}

/* Pairs of lengths of their own: each knows its first tile. */
static uint64_t cut_pairs(struct ccl_local_args *args)
{
    uint64_t ntiles = 0;
    for (uint32_t i = 0; i < args->nunits; i++) {
        uint64_t *words = &args->words[i * CCL_LOCAL_WORDS];
        words[CCL_LOCAL_FIRST_TILE] = ntiles;
        ntiles += tiles_of(words[CCL_LOCAL_BYTES], args->tile_bytes);
    }
    args->ntiles = (uint32_t)ntiles;
    return ntiles;
}

uint64_t ccl_local_cut(struct ccl_local_args *args, uint32_t tile_bytes)
{
    args->tile_bytes = tile_bytes;
    if (args->has_lengths) return cut_pairs(args);
    uint64_t bytes = args->block_bytes;
    uint64_t tiles = tiles_of(args->is_aligned ? bytes / 16 * 16 : bytes, tile_bytes);
    args->vectors.unit_tiles = (uint32_t)tiles;
    args->elements.unit_tiles = (uint32_t)tiles;
    if (args->is_aligned) args->elements.unit_tiles = bytes % 16 != 0;
    return (uint64_t)args->nunits * (tiles + args->elements.unit_tiles);
}

static void deal_to(struct ccl_local_deal *deal, uint32_t nwarps)
{
    if (deal->unit_tiles == 0) return;
    deal->next_units = nwarps / deal->unit_tiles;
    deal->next_tiles = nwarps % deal->unit_tiles;
}

void ccl_local_deal_to(struct ccl_local_args *args, uint32_t nwarps)
{
    deal_to(&args->vectors, nwarps);
    deal_to(&args->elements, nwarps);
}
