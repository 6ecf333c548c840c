/* See foreign_steps.h. */
#include "gpu/foreign_steps.h"

struct ccl_foreign_ref export_part(struct kit_scene *s, int block, size_t offset, size_t bytes)
{
    return KIT_DO(s, KIT_OWNER, .op = KIT_EXPORT, .block = block, .offset = offset, .bytes = bytes)
        .ref;
}

struct ccl_foreign_ref make_block(struct kit_scene *s, int block, enum kit_memory memory,
                                  size_t bytes, uint64_t seed)
{
    KIT_DO(s, KIT_OWNER, .op = KIT_ALLOC, .block = block, .memory = memory, .bytes = bytes);
    KIT_DO(s, KIT_OWNER, .op = KIT_FILL, .block = block, .seed = seed);
    return export_part(s, block, 0, bytes);
}

struct kit_answer import_pinned(struct kit_scene *s, int pin, struct ccl_foreign_ref ref,
                                struct kit_call about)
{
    about.op = KIT_IMPORT;
    about.pin = pin;
    about.ref = ref;
    return kit_good(kit_ask(s, KIT_USER, &about), __FILE__, __LINE__);
}

void unpin(struct kit_scene *s, int pin)
{
    KIT_DO(s, KIT_USER, .op = KIT_UNPIN, .pin = pin);
}

struct ccl_import_usage clean(struct kit_scene *s)
{
    for (int p = 0; p < KIT_PAIRS; p++) KIT_DO(s, KIT_OWNER, .op = KIT_SWEEP, .pair = p);
    return KIT_DO(s, KIT_USER, .op = KIT_COLLECT).usage;
}

struct kit_answer state(struct kit_scene *s, int who)
{
    return KIT_DO(s, who, .op = KIT_STATE);
}
