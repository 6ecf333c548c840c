/* test_programs.c: the text form of schedules and the proof in the library: every algorithm is
 * proved, printed, read again, and the same; broken texts are refused at the right place. */
#include "algo/check.h"
#include "base/err.h"
#include "sim/broken.h"
#include "sim/shape.h"
#include "unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Only direct wants all buffers mapped. */
static enum ccl_mapped mapped_of(int algo)
{
    return ccl_algos[algo] == &ccl_algo_direct ? CCL_MAPPED_ALL : CCL_MAPPED_NONE;
}

static unsigned long nprograms;

static char *print_program(const struct ccl_program *program)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    ccl_program_print(program, file);
    fclose(file);
    return text;
}

static int same_sched(const struct ccl_sched *a, const struct ccl_sched *b)
{
    if (a->nsteps != b->nsteps || a->nlinks != b->nlinks || a->npieces != b->npieces) return 0;
    if ((a->pack > 1 ? a->pack : 1) != (b->pack > 1 ? b->pack : 1) || a->lag != b->lag) return 0;
    if (a->meets != b->meets) return 0;
    return (a->nsteps == 0 || memcmp(a->steps, b->steps, a->nsteps * sizeof *a->steps) == 0) &&
           (a->nlinks == 0 || memcmp(a->links, b->links, a->nlinks * sizeof *a->links) == 0);
}

static void try_program(const struct ccl_algo_ops *algo, const struct ccl_sched_args *args)
{
    struct ccl_program *program, *again;
    nprograms++;
    CHECK_EQ(ccl_program_build(algo, args, &program), ncclSuccess);
    if (ccl_program_check(program, 2, algo->name) != ncclSuccess) FAIL("%s", ccl_err_last());
    char *text = print_program(program);
    if (ccl_program_parse(text, "text", &again) != ncclSuccess) FAIL("%s", ccl_err_last());
    CHECK(again->next == NULL);
    CHECK_STR(again->algo, algo->name);
    CHECK_EQ(again->coll, program->coll);
    CHECK_EQ(again->root, program->root);
    CHECK_EQ(again->nexecs, program->nexecs);
    for (uint16_t e = 0; e < program->nexecs; e++)
        if (!same_sched(&program->scheds[e], &again->scheds[e]))
            FAIL("%s: the schedule of executor %u changed in the text:\n%.2000s", algo->name, e,
                 text);
    if (nprograms % 8 == 0) CHECK_EQ(ccl_program_check(again, 2, "again"), ncclSuccess);
    CHECK(ccl_program_fits(again, args));
    free(text);
    ccl_program_free(program);
    ccl_program_free(again);
}

static void try_ranks(int nranks)
{
    struct shape shape;
    for (int a = 0; ccl_algos[a] != NULL; a++)
        for (int kind = 0; kind < NSHAPES; kind++) {
            if (!shape_make(&shape, (enum shape_kind)kind, nranks, mapped_of(a))) continue;
            for (int c = 0; c < CCL_SCHED_NCOLLS; c++) {
                int has_root = shape_has_root((enum ccl_sched_coll)c);
                for (int root = 0; root<nranks; root += nranks> 8 ? nranks / 3 : 1) {
                    struct ccl_sched_args args = {&shape.view, (enum ccl_sched_coll)c,
                                                  has_root ? root : -1, 8192};
                    if (ccl_algos[a]->supports(&args)) try_program(ccl_algos[a], &args);
                    if (!has_root) break;
                }
            }
        }
}

static void test_algorithms(void)
{
    static const int more[] = {12, 16, 17, 33};
    for (int n = 1; n <= 8; n++) try_ranks(n);
    for (size_t i = 0; i < TEST_COUNT(more); i++) try_ranks(more[i]);
    NOTE("%lu programs proved and read again", nprograms);
}

static void test_many_ranks(void)
{
    struct shape shape;
    for (int a = 0; ccl_algos[a] != NULL; a++)
        for (int c = 0; c < CCL_SCHED_NCOLLS; c++) {
            int root = shape_has_root((enum ccl_sched_coll)c) ? 77 : -1;
            shape_make(&shape, ONE_EACH, 128, mapped_of(a));
            struct ccl_sched_args args = {&shape.view, (enum ccl_sched_coll)c, root, 8192};
            if (ccl_algos[a]->supports(&args)) try_program(ccl_algos[a], &args);
        }
}

static void test_broken(void)
{
    for (size_t i = 0; i < nbroken_programs; i++) {
        const struct broken *b = &broken_programs[i];
        struct ccl_program *program = NULL;
        ncclResult_t rc = ccl_program_parse(b->text, "file", &program);
        if (rc == ncclSuccess) rc = ccl_program_check(program, 2, "file");
        ccl_program_free(program);
        if (rc != ncclInvalidUsage) FAIL("%s: result %d", b->name, (int)rc);
        if (strstr(ccl_err_last(), b->expected) == NULL)
            FAIL("%s: '%s' is not in '%s'", b->name, b->expected, ccl_err_last());
    }
    CHECK(nbroken_programs >= 30);
}

static const struct test_case cases[] = {
    {"every algorithm: proof, text, and back", test_algorithms, 120},
    {"128 ranks", test_many_ranks, 120},
    {"broken schedules are refused", test_broken, 0},
};

TEST_LIB_MAIN(cases)
