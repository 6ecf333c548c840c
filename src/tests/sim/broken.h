/* broken.h: schedules in text form that the proof must refuse, and where it must say so. */
#ifndef SIM_BROKEN_H
#define SIM_BROKEN_H

#include <stddef.h>

struct broken {
    const char *name;
    const char *text;
    const char *expected; /* part of the error text */
};

extern const struct broken broken_programs[];
extern const size_t nbroken_programs;

#endif
