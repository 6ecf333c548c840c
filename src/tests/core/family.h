/* What the tests of families share: communicators that came out of others, with streams and buffers
 * like those of a kit. */
#ifndef CORE_FAMILY_H
#define CORE_FAMILY_H

#include "core/kit.h"

enum { FAMILY_COUNT = 512 };

/* Makes a kit of those ranks of `parent` whose new communicator in comms[] is not NULL, each on its
 * device, in the order of the new ranks. */
void family_adopt(struct kit *child, const struct kit *parent, ncclComm_t *comms);
/* An all-reduce and an all-to-all, compared. */
void family_use(struct kit *kit);
/* Adopts, uses and closes what there is. */
void family_try(const struct kit *parent, ncclComm_t *comms);

#endif
