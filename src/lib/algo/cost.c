/* cost.c: the model: base + messages in a row * hop + turns * turn + bytes moved / rate; the pick.
 *
 * An algorithm tells its shape (struct ccl_shape); the table says what a machine makes of it. Host
 * executors share few cores, so what is done in a row is the longest path or the work of all
 * executors over the cores, whichever is more; and where they are more than cores, each hop takes
 * a turn of all of them. GPUs share nothing but links.
 */
#include "algo/cost.h"

#include <string.h>

/* Executors that run at once on the machine that the table was measured on. */
enum { LANES = 2 };

enum {
    LANE_BYTES = 256 << 10,       /* least bytes that are worth a channel of their own */
    CONN_CHANNEL_BYTES = 64 << 10 /* the same where the channel has connections */
};

static const struct row {
    const struct ccl_algo_ops *algo;
    enum ccl_proto proto;
    enum ccl_cost_place place;
    double base_us, hop_us, turn_us, bytes_per_us;
} rows[] = {
#define CCL_COST(algo, proto, place, base_us, hop_us, turn_us, rate)                               \
    {&ccl_algo_##algo, CCL_PROTO_##proto, CCL_COST_##place, base_us, hop_us, turn_us, rate},
#include "algo/cost_table.h"
#undef CCL_COST
};

const char *ccl_proto_name(enum ccl_proto proto)
{
    static const char *const names[CCL_NPROTOS] = {"Simple", "LL", "LL128"};
    return names[proto];
}

uint32_t ccl_proto_slot_bytes(enum ccl_proto proto, uint32_t simple_slot_bytes)
{
    const uint32_t bytes[CCL_NPROTOS] = {simple_slot_bytes, CCL_LL_SLOT_BYTES,
                                         CCL_LL128_SLOT_BYTES};
    return bytes[proto];
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Executors that take turns on a core. */
static double share_cores(const struct ccl_pick_args *args)
{
    double nexecs = args->sched.view->nexecs;
    return args->place < CCL_COST_GPU_ALONE && nexecs > LANES ? nexecs / LANES : 1;
}

struct ccl_cost_terms ccl_cost_terms(const struct ccl_pick_args *args,
                                     const struct ccl_algo_ops *algo, enum ccl_proto proto)
{
    struct ccl_shape shape = {0};
    algo->shape(&args->sched, &shape);
    int is_gpu = args->place >= CCL_COST_GPU_ALONE;
    double sharing = share_cores(args);
    double bytes = (double)args->bytes;
    double slot_bytes = ccl_proto_slot_bytes(proto, args->sched.slot_bytes);
    double more_rounds = shape.share > 0 ? bytes * shape.share / slot_bytes : 0;
    double each_round = shape.messages * sharing;
    if (is_gpu) more_rounds = 0; /* channels and slots hide all hops but the first ones */
    return (struct ccl_cost_terms){
        .messages = larger(shape.hops, each_round) + more_rounds * each_round,
        .turns = (sharing - 1) * shape.hops,
        .bytes = bytes * shape.traffic * sharing,
    };
}

static double estimate_us(const struct row *row, const struct ccl_pick_args *args)
{
    struct ccl_cost_terms terms = ccl_cost_terms(args, row->algo, row->proto);
    return row->base_us + terms.messages * row->hop_us + terms.turns * row->turn_us +
           terms.bytes / row->bytes_per_us;
}

static int is_allowed(const struct row *row, const struct ccl_pick_args *args)
{
    const struct ccl_view *view = args->sched.view;
    if (row->place != args->place) return 0;
    struct ccl_sched_args sched = args->sched;
    sched.slot_bytes = ccl_proto_slot_bytes(row->proto, sched.slot_bytes);
    if (!row->algo->supports(&sched)) return 0;
    if (row->algo == &ccl_algo_direct && view->mapped == CCL_MAPPED_SHARED &&
        (args->certain || args->bytes < CCL_COST_SHARED_BYTES))
        return 0;
    if (view->nexecs == 1) return 1;
    uint32_t index = 0;
    while (ccl_algos[index] != row->algo) index++;
    return args->choice->algos[sched.coll] >> index & 1u &&
           args->choice->protos[sched.coll] >> row->proto & 1u;
}

/* Whether an algorithm makes the same bits as direct: every rank's values are folded one by one, in
 * the order of slots. */
static int is_like_direct(const struct row *row, const struct ccl_view *view)
{
    return row->algo == &ccl_algo_direct ||
           (row->algo == &ccl_algo_oneshot && view->nexecs == view->nranks);
}

/* Where direct may run, only what makes the same bits stands beside it: in a process results do not
 * depend on the size of an operation. Across processes direct is taken without comparing. */
struct ccl_pick ccl_cost_pick(const struct ccl_pick_args *args)
{
    struct ccl_pick best = {0};
    int has_direct = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!is_allowed(&rows[i], args)) continue;
        if (has_direct && !is_like_direct(&rows[i], args->sched.view)) continue;
        has_direct |= rows[i].algo == &ccl_algo_direct;
        double cost_us = estimate_us(&rows[i], args);
        if (best.algo != NULL && cost_us >= best.cost_us) continue;
        best = (struct ccl_pick){rows[i].algo, rows[i].proto, cost_us};
        if (best.algo == &ccl_algo_direct && args->place == CCL_COST_ACROSS) break;
    }
    return best;
}

static const struct row *find_row(enum ccl_cost_place place, const struct ccl_algo_ops *algo,
                                  enum ccl_proto proto)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].place == place && rows[i].algo == algo && rows[i].proto == proto)
            return &rows[i];
    return NULL;
}

double ccl_cost_us(const struct ccl_pick_args *args, const struct ccl_algo_ops *algo,
                   enum ccl_proto proto)
{
    const struct row *row = find_row(args->place, algo, proto);
    return row != NULL && is_allowed(row, args) ? estimate_us(row, args) : 0;
}

double ccl_cost_messages_us(const struct ccl_pick_args *args, uint64_t n)
{
    const struct row *row = find_row(args->place, &ccl_algo_ring, CCL_PROTO_SIMPLE);
    if (row == NULL) row = find_row(args->place, &ccl_algo_direct, CCL_PROTO_SIMPLE);
    double sharing = share_cores(args);
    return row->base_us +
           sharing * ((double)n * row->hop_us + (double)args->bytes / row->bytes_per_us);
}

int ccl_cost_has_proto(enum ccl_cost_place place, enum ccl_proto proto)
{
    return proto != CCL_PROTO_LL128 || place == CCL_COST_GPU_NVLINK;
}

uint16_t ccl_cost_gpu_channels(uint64_t piece_bytes, uint64_t most, enum ccl_proto proto)
{
    static const uint32_t channel_bytes[CCL_NPROTOS] = {32 << 10, 4 << 10, 14 << 10};
    uint64_t wanted = (piece_bytes + channel_bytes[proto] - 1) / channel_bytes[proto];
    if (wanted > most) wanted = most;
    return wanted < 1 ? 1 : (uint16_t)wanted;
}

uint16_t ccl_cost_channels(uint64_t piece_bytes, uint64_t most, int has_links)
{
    uint64_t wanted = piece_bytes / (has_links ? CONN_CHANNEL_BYTES : LANE_BYTES);
    if (wanted > most) wanted = most;
    return wanted < 1 ? 1 : (uint16_t)wanted;
}
