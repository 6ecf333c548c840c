/* choice.c: the grammar of NCCL_ALGO and NCCL_PROTO, and the words of each. */
#include "algo/choice.h"

#include "base/err.h"

#include <string.h>
#include <strings.h>

/* A word and what it allows. Words of upstream that name what this library does not have are known
 * but allow nothing. */
struct word {
    const char *name;
    uint32_t bits;
};

enum { DIRECT, ONESHOT, TWOSHOT, RING, TREE, LOGSTEP }; /* the order of ccl_algos */

static const struct word algo_words[] = {
    {"ring", 1u << RING},
    {"tree", 1u << TREE},
    {"pat", 1u << LOGSTEP},
    {"collnetdirect", 0},
    {"collnetchain", 0},
    {"nvls", 0},
    {"nvlstree", 0},
    {"direct", 1u << DIRECT},
    {"oneshot", 1u << ONESHOT},
    {"twoshot", 1u << TWOSHOT},
    {"logstep", 1u << LOGSTEP},
    {NULL, 0},
};

static const struct word proto_words[] = {
    {"ll", 1u << CCL_PROTO_LL},
    {"ll128", 1u << CCL_PROTO_LL128},
    {"simple", 1u << CCL_PROTO_SIMPLE},
    {NULL, 0},
};

static const struct word functions[] = {
    {"allreduce", 1u << CCL_SCHED_ALL_REDUCE},         {"reduce", 1u << CCL_SCHED_REDUCE},
    {"broadcast", 1u << CCL_SCHED_BROADCAST},          {"allgather", 1u << CCL_SCHED_ALL_GATHER},
    {"reducescatter", 1u << CCL_SCHED_REDUCE_SCATTER}, {NULL, 0},
};

/* A part of the variable's text. */
struct part {
    const char *at;
    size_t length;
};

static const struct word *find_word(const struct word *words, struct part part)
{
    for (; words->name != NULL; words++)
        if (strlen(words->name) == part.length &&
            strncasecmp(words->name, part.at, part.length) == 0)
            return words;
    return NULL;
}

/* Cuts what stands before `stop` off `rest`. */
static struct part cut(struct part *rest, char stop)
{
    const char *end = memchr(rest->at, stop, rest->length);
    struct part part = {rest->at, end != NULL ? (size_t)(end - rest->at) : rest->length};
    size_t taken = part.length + (end != NULL);
    rest->at += taken;
    rest->length -= taken;
    return part;
}

static ncclResult_t read_list(const char *variable, const struct word *words, struct part list,
                              uint32_t *bits)
{
    struct part rest = list;
    int inverts = list.length > 0 && list.at[0] == '^';
    *bits = 0;
    if (inverts) {
        rest.at++;
        rest.length--;
    }
    do {
        struct part part = cut(&rest, ',');
        const struct word *word = find_word(words, part);
        if (word == NULL)
            return ccl_err(ncclInvalidUsage, "%s: unknown word '%.*s'", variable, (int)part.length,
                           part.at);
        *bits |= word->bits;
    } while (rest.length > 0);
    if (inverts) *bits = ~*bits;
    return ncclSuccess;
}

static ncclResult_t read_entry(const char *variable, const struct word *words, struct part entry,
                               uint32_t *masks)
{
    uint32_t chosen = ~0u, bits;
    if (memchr(entry.at, ':', entry.length) != NULL) {
        struct part name = cut(&entry, ':');
        const struct word *function = find_word(functions, name);
        if (function == NULL)
            return ccl_err(ncclInvalidUsage, "%s: unknown function '%.*s'", variable,
                           (int)name.length, name.at);
        chosen = function->bits;
    }
    TRY(read_list(variable, words, entry, &bits));
    for (int coll = 0; coll <= CCL_SCHED_REDUCE_SCATTER; coll++)
        if (chosen >> coll & 1u) masks[coll] = bits;
    return ncclSuccess;
}

static ncclResult_t read_variable(const char *variable, const struct word *words, const char *text,
                                  uint32_t *masks)
{
    for (int coll = 0; coll < CCL_SCHED_NCOLLS; coll++) masks[coll] = ~0u;
    if (text == NULL) return ncclSuccess;
    struct part rest = {text, strlen(text)};
    do TRY(read_entry(variable, words, cut(&rest, ';'), masks));
    while (rest.length > 0);
    return ncclSuccess;
}

ncclResult_t ccl_choice_parse(const char *algo, const char *proto, struct ccl_choice *choice)
{
    TRY(read_variable("NCCL_ALGO", algo_words, algo, choice->algos));
    return read_variable("NCCL_PROTO", proto_words, proto, choice->protos);
}
