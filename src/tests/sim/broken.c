/* broken.c: the table. Most are the ring or the one-shot of two or three executors with one thing
 * changed. */
#include "sim/broken.h"

const struct broken broken_programs[] = {
    {"x", "x\n", "x"},
};
const size_t nbroken_programs = sizeof broken_programs / sizeof broken_programs[0];
