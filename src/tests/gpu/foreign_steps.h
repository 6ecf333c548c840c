/* What most cases of test_foreign do with the two servers. A step that fails ends the case.
 */
#ifndef GPU_FOREIGN_STEPS_H
#define GPU_FOREIGN_STEPS_H

#include "gpu/foreign_kit.h"
#include "unit/test.h"

#include <stdio.h>
#include <string.h>

struct ccl_foreign_ref export_part(struct kit_scene *s, int block, size_t offset, size_t bytes);
/* Makes a block, fills it with its seed and exports the whole. */
struct ccl_foreign_ref make_block(struct kit_scene *s, int block, enum kit_memory memory,
                                  size_t bytes, uint64_t seed);

/* Imports and checks the content; it stays pinned. */
struct kit_answer import_pinned(struct kit_scene *s, int pin, struct ccl_foreign_ref ref,
                                struct kit_call about);
#define IMPORT_PINNED(s, pin, ref, ...) import_pinned(s, pin, ref, (struct kit_call){__VA_ARGS__})
void unpin(struct kit_scene *s, int pin);

/* Imports, checks the content, and lets go. */
#define IMPORT(s, ref, ...)                                                                        \
    do {                                                                                           \
        IMPORT_PINNED(s, 0, ref, __VA_ARGS__);                                                     \
        unpin(s, 0);                                                                               \
    } while (0)

/* Everything that was freed is told and given up. */
struct ccl_import_usage clean(struct kit_scene *s);
struct kit_answer state(struct kit_scene *s, int who);

#endif
