/* sched_text.c: the text form of programs, both ways; docs/schedules.md describes it. What it
 * means is not looked at here: that is the business of check.c.
 */
#include "algo/program.h"

#include "base/alloc.h"
#include "base/err.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
    uint8_t bit;
    const char *word;
} flag_words[] = {
    {CCL_STEP_POST, "post"}, {CCL_STEP_PUBLISH, "publish"}, {CCL_STEP_LATE, "late"},
    {CCL_STEP_KEEP, "keep"}, {CCL_STEP_FILL, "fill"},
};
enum { NFLAGS = sizeof flag_words / sizeof flag_words[0] };

static const char *const kind_words[] = {
    [CCL_FOLD] = "fold", [CCL_MAP] = "map", [CCL_MEET] = "meet"};
static const char *const space_words[] = {[CCL_IN] = "in", [CCL_OUT] = "out", [CCL_CONN] = "link"};
/* Files have the protocols that all devices know. */
static const char *const proto_words[CCL_NPROTOS] = {"Simple", "LL", "LL128"};
enum { NFILE_PROTOS = CCL_PROTO_LL + 1 };

/* ---- printing ---- */

static void print_range(const struct ccl_range *range, FILE *file)
{
    if (range->space == CCL_NONE) return;
    fprintf(file, " %s:%u", space_words[range->space], range->first);
    if (range->count > 1 || range->hop != 1) fprintf(file, "*%u", range->count);
    if (range->hop != 1) fprintf(file, "%+d", range->hop);
    if (range->block != 0 || range->block_hop != 0) fprintf(file, "@%d", range->block);
    if (range->block_hop != 0) fprintf(file, "%+d", range->block_hop);
}

static void print_step(const struct ccl_step *step, FILE *file)
{
    fprintf(file, "  %s", kind_words[step->kind]);
    if (step->kind != CCL_MEET) fprintf(file, " %u", step->piece);
    for (int f = 0; f < NFLAGS; f++)
        if (step->flags & flag_words[f].bit) fprintf(file, " %s", flag_words[f].word);
    if (step->kind != CCL_MEET) {
        fprintf(file, " from");
        for (int side = 0; side < 2; side++) print_range(&step->in[side], file);
        fprintf(file, " to");
        for (int side = 0; side < 2; side++) print_range(&step->out[side], file);
    }
    fprintf(file, "\n");
}

void ccl_program_print(const struct ccl_program *program, FILE *file)
{
    const struct ccl_sched *first = &program->scheds[0];
    fprintf(file, "schedule %s\nalgorithm %s\nprotocol %s\n", ccl_sched_coll_names[program->coll],
            program->algo, proto_words[program->proto]);
    if (program->root >= 0) fprintf(file, "root %d\n", program->root);
    fprintf(file, "ranks");
    for (uint16_t r = 0; r < program->nranks; r++) fprintf(file, " %u", program->exec_of[r]);
    fprintf(file, "\npieces %u\n", first->npieces);
    if (first->pack > 1) fprintf(file, "pack %u\n", first->pack);
    if (first->lag > 0) fprintf(file, "lag %u\n", first->lag);
    for (uint16_t e = 0; e < program->nexecs; e++) {
        const struct ccl_sched *sched = &program->scheds[e];
        fprintf(file, "executor %u\n", e);
        for (uint32_t l = 0; l < sched->nlinks; l++)
            fprintf(file, "  %s %u\n", sched->links[l].is_send ? "send" : "recv",
                    sched->links[l].peer);
        for (uint32_t s = 0; s < sched->nsteps; s++) print_step(&sched->steps[s], file);
    }
    fprintf(file, "end\n");
}

/* ---- parsing ---- */

enum { MAX_WORDS = 2 * CCL_PROGRAM_MAX_RANKS, MAX_STEPS = 60000, MAX_NUMBER = 32000 };

struct parser {
    const char *name, *next; /* next: the line after this one */
    uint32_t line;
    char *words[MAX_WORDS];
    int nwords;
    struct ccl_program *first, *last; /* last: the one in work, NULL between two */
    struct ccl_program head;          /* of the one in work, until its shape is known */
    uint16_t npieces, pack, lag;
    struct ccl_sched *sched; /* of the executor in work */
    uint16_t exec;
    char text[64 * 1024]; /* of the line */
};

static ncclResult_t fail(const struct parser *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static ncclResult_t fail(const struct parser *p, const char *format, ...)
{
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return ccl_err(ncclInvalidUsage, "%s, line %u: %s", p->name, p->line, what);
}

/* Takes the next line apart. 0 at the end of the text. */
static int read_line(struct parser *p)
{
    p->nwords = 0;
    while (*p->next != '\0' && p->nwords == 0) {
        size_t length = strcspn(p->next, "\n"), kept = strcspn(p->next, "#\n");
        p->line++;
        if (kept >= sizeof p->text) kept = sizeof p->text - 1;
        memcpy(p->text, p->next, kept);
        p->text[kept] = '\0';
        p->next += length + (p->next[length] == '\n');
        char *rest = NULL;
        for (char *word = strtok_r(p->text, " \t\r", &rest); word != NULL && p->nwords < MAX_WORDS;
             word = strtok_r(NULL, " \t\r", &rest))
            p->words[p->nwords++] = word;
    }
    return p->nwords > 0;
}

/* A number at *text; moves behind it. */
static int take_number(const char **text, long *value)
{
    char *end;
    if (!isdigit((unsigned char)**text) && **text != '-' && **text != '+') return 0;
    *value = strtol(*text, &end, 10);
    if (end == *text || *value > MAX_NUMBER || *value < -MAX_NUMBER) return 0;
    *text = end;
    return 1;
}

static ncclResult_t read_number(const struct parser *p, int word, long low, uint16_t *out)
{
    long value = 0;
    const char *text = word < p->nwords ? p->words[word] : "";
    if (!take_number(&text, &value) || *text != '\0' || value < low)
        return fail(p, "%s needs a number from %ld to %d", p->words[0], low, MAX_NUMBER);
    *out = (uint16_t)value;
    return ncclSuccess;
}

static int find_word(const char *word, const char *const *words, int nwords)
{
    for (int i = 0; i < nwords; i++)
        if (words[i] != NULL && strcasecmp(word, words[i]) == 0) return i;
    return -1;
}

/* SPACE:FIRST[*COUNT[+HOP]][@BLOCK[+BLOCK_HOP]] */
static ncclResult_t parse_range(const struct parser *p, const char *word, struct ccl_range *range)
{
    const char *colon = strchr(word, ':'), *at = colon != NULL ? colon + 1 : word;
    char space[8] = "";
    long first = 0, count = 1, hop = 1, block = 0, block_hop = 0;
    if (colon != NULL && colon - word < (long)sizeof space)
        memcpy(space, word, (size_t)(colon - word));
    int kind = find_word(space, space_words, CCL_CONN + 1), good = kind > 0;
    good = good && take_number(&at, &first) && first >= 0;
    if (good && *at == '*') {
        at++;
        good = take_number(&at, &count) && count >= 1;
        if (good && (*at == '+' || *at == '-')) good = take_number(&at, &hop);
    }
    if (good && *at == '@') {
        at++;
        good = take_number(&at, &block);
        if (good && (*at == '+' || *at == '-')) good = take_number(&at, &block_hop);
    }
    if (!good || *at != '\0')
        return fail(p, "'%s' is no range (in, out or link:FIRST*COUNT+HOP@BLOCK+HOP)", word);
    *range = (struct ccl_range){
        (uint8_t)kind,     0, (uint16_t)first, (uint16_t)count, (int16_t)hop, (int16_t)block,
        (int16_t)block_hop};
    return ncclSuccess;
}

/* The ranges of one direction. A fold has links on side 0, buffers on side 1; a map uses side 0. */
static ncclResult_t parse_ranges(const struct parser *p, int *word, struct ccl_step *step, int out)
{
    struct ccl_range *sides = out ? step->out : step->in;
    for (; *word < p->nwords && strcmp(p->words[*word], "to") != 0; (*word)++) {
        struct ccl_range range;
        TRY(parse_range(p, p->words[*word], &range));
        int side = step->kind == CCL_FOLD && range.space != CCL_CONN;
        if (sides[side].space != CCL_NONE)
            return fail(p, "a second range of the same kind: '%s'", p->words[*word]);
        sides[side] = range;
    }
    return ncclSuccess;
}

static ncclResult_t parse_flags(const struct parser *p, int *word, struct ccl_step *step)
{
    for (; *word < p->nwords && strcmp(p->words[*word], "from") != 0; (*word)++) {
        int f = 0;
        while (f < NFLAGS && strcasecmp(p->words[*word], flag_words[f].word) != 0) f++;
        if (f == NFLAGS) return fail(p, "'%s' is no flag of a step", p->words[*word]);
        step->flags |= flag_words[f].bit;
    }
    return ncclSuccess;
}

static ncclResult_t note_line(struct parser *p)
{
    struct ccl_program *program = p->last;
    if (program->lines == NULL) TRY(CCL_NEW(&program->lines, program->nexecs));
    uint32_t **lines = &program->lines[p->exec], nsteps = p->sched->nsteps;
    if (*lines == NULL) TRY(CCL_NEW(lines, MAX_STEPS));
    (*lines)[nsteps - 1] = p->line;
    return ncclSuccess;
}

static ncclResult_t parse_step(struct parser *p, enum ccl_kind kind)
{
    struct ccl_step step = {.kind = (uint8_t)kind};
    int word = 1;
    if (p->sched == NULL) return fail(p, "a step before any executor");
    if (p->sched->nsteps == MAX_STEPS) return fail(p, "more than %d steps", MAX_STEPS);
    if (kind != CCL_MEET) TRY(read_number(p, word++, 0, &step.piece));
    TRY(parse_flags(p, &word, &step));
    if (kind != CCL_MEET) {
        if (word++ == p->nwords) return fail(p, "%s without 'from'", p->words[0]);
        TRY(parse_ranges(p, &word, &step, 0));
        if (word++ >= p->nwords) return fail(p, "%s without 'to'", p->words[0]);
        TRY(parse_ranges(p, &word, &step, 1));
    }
    if (word < p->nwords) return fail(p, "'%s' is too much here", p->words[word]);
    struct ccl_step *to = ccl_sched_add(p->sched, kind);
    if (to == NULL) return ncclSystemError;
    *to = step;
    return note_line(p);
}

static ncclResult_t parse_link(struct parser *p, int is_send)
{
    uint16_t peer = 0;
    if (p->sched == NULL) return fail(p, "a link before any executor");
    TRY(read_number(p, 1, 0, &peer));
    if (peer >= p->last->nexecs) return fail(p, "there is no executor %u", peer);
    uint32_t before = p->sched->nlinks;
    int link = ccl_sched_link(p->sched, peer, is_send);
    if (link < 0) return ncclSystemError;
    if ((uint32_t)link < before) return fail(p, "this link is there already, as link %d", link);
    return ncclSuccess;
}

static ncclResult_t parse_ranks(struct parser *p)
{
    uint16_t exec_of[CCL_PROGRAM_MAX_RANKS], nexecs = 0;
    int nranks = p->nwords - 1;
    if (p->last != NULL) return fail(p, "ranks a second time");
    if (nranks < 1 || nranks > CCL_PROGRAM_MAX_RANKS)
        return fail(p, "%d ranks; a schedule has 1 to %d", nranks, CCL_PROGRAM_MAX_RANKS);
    for (int r = 0; r < nranks; r++) {
        TRY(read_number(p, r + 1, 0, &exec_of[r]));
        if (exec_of[r] > nexecs)
            return fail(p, "executors are numbered by their lowest rank: %u comes before %u",
                        exec_of[r], nexecs);
        if (exec_of[r] == nexecs) nexecs++;
    }
    struct ccl_program *program;
    TRY(ccl_program_new(exec_of, nranks, &program));
    program->coll = p->head.coll;
    program->proto = p->head.proto;
    program->root = p->head.root;
    memcpy(program->algo, p->head.algo, sizeof program->algo);
    struct ccl_program **link = &p->first;
    while (*link != NULL) link = &(*link)->next;
    *link = p->last = program;
    return ncclSuccess;
}

static ncclResult_t parse_executor(struct parser *p)
{
    uint16_t exec;
    if (p->last == NULL) return fail(p, "an executor before the ranks");
    TRY(read_number(p, 1, 0, &exec));
    if (exec >= p->last->nexecs) return fail(p, "there is no executor %u", exec);
    p->exec = exec;
    p->sched = &p->last->scheds[exec];
    if (p->sched->npieces != 0) return fail(p, "executor %u a second time", exec);
    p->sched->npieces = p->npieces;
    p->sched->pack = p->pack;
    p->sched->lag = p->lag;
    return ncclSuccess;
}

static ncclResult_t parse_end(struct parser *p)
{
    if (p->last == NULL) return fail(p, "'end' without a schedule");
    for (uint16_t e = 0; e < p->last->nexecs; e++)
        if (p->last->scheds[e].npieces == 0) return fail(p, "executor %u is missing", e);
    p->last = NULL;
    p->sched = NULL;
    p->head.algo[0] = '\0';
    return ncclSuccess;
}

static ncclResult_t parse_schedule(struct parser *p)
{
    if (p->last != NULL) return fail(p, "'end' is missing before this schedule");
    int coll = p->nwords > 1 ? find_word(p->words[1], ccl_sched_coll_names, CCL_SCHED_NCOLLS) : -1;
    if (coll < 0) return fail(p, "schedule needs a collective (AllReduce, Broadcast ...)");
    p->head = (struct ccl_program){.coll = (enum ccl_sched_coll)coll, .root = -1, .algo = "file"};
    p->npieces = 1;
    p->pack = p->lag = 0;
    return ncclSuccess;
}

static ncclResult_t parse_protocol(struct parser *p)
{
    int proto = p->nwords > 1 ? find_word(p->words[1], proto_words, NFILE_PROTOS) : -1;
    if (proto < 0) return fail(p, "protocol is Simple or LL");
    p->head.proto = (enum ccl_proto)proto;
    return ncclSuccess;
}

static ncclResult_t parse_algorithm(struct parser *p)
{
    if (p->nwords != 2 || strlen(p->words[1]) >= sizeof p->head.algo)
        return fail(p, "algorithm needs one name of at most %zu letters", sizeof p->head.algo - 1);
    memcpy(p->head.algo, p->words[1], strlen(p->words[1]) + 1);
    return ncclSuccess;
}

static ncclResult_t parse_root(struct parser *p)
{
    uint16_t root;
    TRY(read_number(p, 1, 0, &root));
    p->head.root = root;
    return ncclSuccess;
}

static ncclResult_t parse_line(struct parser *p)
{
    const char *word = p->words[0];
    int kind = find_word(word, kind_words, CCL_MEET + 1);
    if (strcasecmp(word, "schedule") == 0) return parse_schedule(p);
    if (p->head.algo[0] == '\0') return fail(p, "'%s' outside a schedule", word);
    if (strcasecmp(word, "end") == 0) return parse_end(p);
    if (strcasecmp(word, "executor") == 0) return parse_executor(p);
    if (strcasecmp(word, "send") == 0) return parse_link(p, 1);
    if (strcasecmp(word, "recv") == 0) return parse_link(p, 0);
    if (kind >= 0) return parse_step(p, (enum ccl_kind)kind);
    if (p->sched != NULL) return fail(p, "'%s' is neither a link nor a step", word);
    if (strcasecmp(word, "algorithm") == 0) return parse_algorithm(p);
    if (strcasecmp(word, "protocol") == 0) return parse_protocol(p);
    if (strcasecmp(word, "root") == 0) return parse_root(p);
    if (strcasecmp(word, "ranks") == 0) return parse_ranks(p);
    if (strcasecmp(word, "pieces") == 0) return read_number(p, 1, 1, &p->npieces);
    if (strcasecmp(word, "pack") == 0) return read_number(p, 1, 1, &p->pack);
    if (strcasecmp(word, "lag") == 0) return read_number(p, 1, 0, &p->lag);
    return fail(p, "unknown word '%s'", word);
}

ncclResult_t ccl_program_parse(const char *text, const char *name, struct ccl_program **out)
{
    ncclResult_t rc = ncclSuccess;
    struct parser *p;
    TRY(CCL_NEW(&p, 1));
    p->name = name;
    p->next = text;
    while (rc == ncclSuccess && read_line(p)) rc = parse_line(p);
    if (rc == ncclSuccess && p->last != NULL) rc = fail(p, "'end' is missing");
    if (rc == ncclSuccess && p->first == NULL) rc = fail(p, "no schedule in it");
    if (rc == ncclSuccess)
        *out = p->first;
    else
        ccl_program_free(p->first);
    ccl_free(p);
    return rc;
}
