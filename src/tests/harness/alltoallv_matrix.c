/* How many elements each rank of alltoallv_perf sends to each; see alltoallv_matrix.h.
 *
 * Called by alltoallv.c. The settings are written by prepare before any thread starts and only
 * read afterwards.
 */
#include "harness/alltoallv_matrix.h"

#include "harness/options.h"
#include "harness/usage.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    double spread, scale;
    int summary, exact;
    int nranks;    /* rows and columns of the file's matrix, 0: generated */
    size_t *bytes; /* [nranks][nranks], row by row */
} matrix = {.spread = 1, .scale = 1};

static int refuse(const char *variable, const char *value, const char *why)
{
    fprintf(stderr, "%s: %s: '%s' %s\n", perf_program(), variable, value, why);
    return 2;
}

static int read_number(const char *variable, double least, double most, double *number)
{
    const char *text = getenv(variable);
    char *end, why[96];
    if (!text) return 0;
    errno = 0;
    double value = strtod(text, &end);
    if (end != text && *end == '\0' && errno == 0 && isfinite(value) && value >= least &&
        value <= most) {
        *number = value;
        return 0;
    }
    if (isinf(most))
        snprintf(why, sizeof(why), "is no number of at least %g", least);
    else
        snprintf(why, sizeof(why), "is no number from %g to %g", least, most);
    return refuse(variable, text, why);
}

/* The whole file as a string; NULL with errno set. */
static char *read_file(const char *path)
{
    enum { FIRST_BYTES = 4096 };
    size_t room = FIRST_BYTES, used = 0;
    char *text = malloc(room);
    FILE *file = text ? fopen(path, "r") : NULL;
    if (!file) goto fail;
    for (;;) {
        used += fread(text + used, 1, room - used - 1, file);
        if (ferror(file)) goto fail;
        if (used < room - 1) break;
        char *larger = realloc(text, room *= 2);
        if (!larger) goto fail;
        text = larger;
    }
    fclose(file);
    text[used] = '\0';
    return text;
fail:
    if (file) fclose(file);
    free(text);
    return NULL;
}

/* Where the reading of a file stands; counts from 1 as an editor does. */
struct reader {
    const char *path, *at;
    int row, column;
    int ncolumns; /* of the first row */
    int stored, room;
    size_t *bytes;
};

static int refuse_cell(const struct reader *reader, const char *why)
{
    char text[160];
    snprintf(text, sizeof(text), "row %d column %d %s", reader->row, reader->column, why);
    return refuse("NCCL_TESTS_ALLTOALLV_MATRIX_FILE", reader->path, text);
}

static int read_cell(struct reader *reader)
{
    char *end;
    double value = strtod(reader->at, &end);
    reader->column++;
    if (end == reader->at || (*end && !isspace((unsigned char)*end)))
        return refuse_cell(reader, "is no number");
    value *= matrix.scale;
    /* Sums of a row must stay far from the end of size_t. */
    if (!(value >= 0 && value < 0x1p48))
        return refuse_cell(reader, "is no number of bytes from 0 to 2^48");
    if (reader->stored == reader->room) {
        reader->room = reader->room ? 2 * reader->room : 64;
        size_t *larger = realloc(reader->bytes, (size_t)reader->room * sizeof(*larger));
        if (!larger) return refuse_cell(reader, "does not fit in memory");
        reader->bytes = larger;
    }
    reader->bytes[reader->stored++] = (size_t)value;
    reader->at = end;
    return 0;
}

/* Ends a line; empty ones do not count. */
static int end_row(struct reader *reader)
{
    if (reader->column == 0) return 0;
    if (reader->row == 1) reader->ncolumns = reader->column;
    if (reader->column != reader->ncolumns)
        return refuse_cell(reader, "is the end of a row that is not as long as the first");
    reader->row++;
    reader->column = 0;
    return 0;
}

static int read_cells(struct reader *reader)
{
    int code = 0;
    while (code == 0 && *reader->at) {
        if (*reader->at == '\n') code = end_row(reader);
        if (code != 0) break;
        if (isspace((unsigned char)*reader->at))
            reader->at++;
        else
            code = read_cell(reader);
    }
    return code ? code : end_row(reader);
}

static int read_matrix(const char *path, int nranks)
{
    char why[128];
    char *text = read_file(path);
    if (!text) return refuse("NCCL_TESTS_ALLTOALLV_MATRIX_FILE", path, strerror(errno));
    struct reader reader = {.path = path, .at = text, .row = 1};
    int code = read_cells(&reader), nrows = reader.row - 1;
    free(text);
    if (code == 0 && (nrows != reader.ncolumns || nrows < nranks)) {
        snprintf(why, sizeof(why), "has %d rows of %d numbers; needs as many, %d at least", nrows,
                 reader.ncolumns, nranks);
        code = refuse("NCCL_TESTS_ALLTOALLV_MATRIX_FILE", path, why);
    }
    if (code != 0) {
        free(reader.bytes);
        return code;
    }
    matrix.bytes = reader.bytes;
    matrix.nranks = nrows;
    return 0;
}

int perf_matrix_prepare(const struct perf_options *options, int nranks)
{
    double summary = 0;
    perf_matrix_drop();
    int code = read_number("NCCL_TESTS_ALLTOALLV_SPREAD", 0, 1, &matrix.spread);
    if (!code) code = read_number("NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", 0, INFINITY, &matrix.scale);
    if (!code) code = read_number("NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY", 0, 1, &summary);
    if (code) return code;
    matrix.summary = summary != 0;
    matrix.exact = options->exact;
    const char *path = getenv("NCCL_TESTS_ALLTOALLV_MATRIX_FILE");
    if (!path || !*path) return 0;
    if (options->min_bytes != options->max_bytes)
        return refuse("NCCL_TESTS_ALLTOALLV_MATRIX_FILE", path,
                      "gives the sizes itself: -b and -e must be equal");
    return read_matrix(path, nranks);
}

size_t perf_matrix_elems(const struct perf_matrix_row *row, int from, int to)
{
    size_t elems, align = matrix.exact ? 1 : 16 / row->type_bytes;
    if (matrix.nranks > 0) {
        size_t cell = (size_t)from * (size_t)matrix.nranks + (size_t)to;
        elems = matrix.bytes[cell] / row->type_bytes;
    } else if (row->nranks == 1) {
        elems = row->count;
    } else {
        /* The distances 0 … n-1 add up to n(n-1)/2, hence 2 count / (n-1) per unit of it. */
        int distance = (to - from + row->nranks) % row->nranks;
        double count = (double)row->count;
        double far = 2 * count * distance / (row->nranks - 1);
        elems = (size_t)((1 - matrix.spread) * count + matrix.spread * far);
    }
    return elems - elems % align;
}

size_t perf_matrix_send_before(const struct perf_matrix_row *row, int rank, int to)
{
    size_t before = 0;
    for (int peer = 0; peer < to; peer++) before += perf_matrix_elems(row, rank, peer);
    return before;
}

size_t perf_matrix_recv_before(const struct perf_matrix_row *row, int rank, int from)
{
    size_t before = 0;
    for (int peer = 0; peer < from; peer++) before += perf_matrix_elems(row, peer, rank);
    return before;
}

void perf_matrix_largest(const struct perf_matrix_row *row, size_t *send, size_t *recv)
{
    *send = *recv = 0;
    for (int rank = 0; rank < row->nranks; rank++) {
        size_t out = perf_matrix_send_before(row, rank, row->nranks);
        size_t in = perf_matrix_recv_before(row, rank, row->nranks);
        if (out > *send) *send = out;
        if (in > *recv) *recv = in;
    }
}

int perf_matrix_is_file(void)
{
    return matrix.nranks > 0;
}

int perf_matrix_wants_summary(void)
{
    return matrix.summary;
}

void perf_matrix_drop(void)
{
    free(matrix.bytes);
    matrix.bytes = NULL;
    matrix.nranks = matrix.summary = 0;
    matrix.spread = matrix.scale = 1;
}
