/* The pure functions behind the values of verification: what mixes, where columns turn, and the
 * stream of data movement element by element.
 *
 * values.c builds pieces from them on the CPU, cuda_values.cu single elements on a GPU; one text
 * for both, so that both expect the same bits.
 */
#ifndef PERF_MIXING_H
#define PERF_MIXING_H

#include <stdint.h>

#ifdef __CUDACC__
#define PERF_PURE static inline __host__ __device__
#else
#define PERF_PURE static inline
#endif

enum { PERF_COLUMNS = 256 };

/* What the words of a stream are apart before they are mixed. */
#define PERF_STREAM_STEP UINT64_C(0x9e3779b97f4a7c15)

/* A well mixed function of its argument: two rounds of xor-shift and multiply reach every output
 * bit from every input bit. */
PERF_PURE uint64_t perf_mix(uint64_t value)
{
    value = (value ^ (value >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    value = (value ^ (value >> 29)) * UINT64_C(0xa0761d6478bd642f);
    return value ^ (value >> 32);
}

/* A permutation of 0 … 255 that is not linear: no distance maps all bytes alike. */
PERF_PURE unsigned perf_scramble(unsigned byte)
{
    byte = byte * 0x9d & 255;
    byte ^= byte >> 3;
    byte = byte * 0x65 & 255;
    return byte ^ byte >> 4;
}

/* How far the columns of a block of 256 elements are rotated. */
PERF_PURE unsigned perf_rotation(uint64_t seed, uint64_t block)
{
    unsigned turn = 0;
    for (int byte = 6; byte >= 0; byte--)
        turn = perf_scramble((turn + (unsigned)(block >> 8 * byte)) & 255);
    return (turn + 17 * (unsigned)seed) & 255;
}

/* Column of an element, 0 … 255. Two indices that differ in one byte only, and two seeds that
 * differ by less than 256, have different columns. */
PERF_PURE unsigned perf_column(uint64_t seed, uint64_t index)
{
    return (perf_rotation(seed, index / PERF_COLUMNS) + (unsigned)index) & 255;
}

/* Where a stream of a rank starts, and by what its columns are turned. */
PERF_PURE uint64_t perf_stream_base(uint64_t seed, uint64_t stream)
{
    return perf_mix(seed ^ perf_mix(stream + 1));
}
PERF_PURE unsigned perf_stream_turn(uint64_t stream)
{
    return (unsigned)(stream * 0x9d & 255);
}

/* Element `index`, whose column is known, of the stream, in the low type_bytes bytes; what is
 * above them is of no meaning. */
PERF_PURE uint64_t perf_stream_element(uint64_t base, uint64_t index, unsigned type_bytes,
                                       unsigned first_byte)
{
    uint64_t lanes = 8 / type_bytes;
    uint64_t mixed = perf_mix(base + index / lanes * PERF_STREAM_STEP);
    return (mixed >> index % lanes * type_bytes * 8 & ~UINT64_C(255)) | first_byte;
}

#endif
