/* work.h: the ABI between the host side and the kernels.
 *
 * A schedule (steps and links) says what one executor does for one operation; a work binds it to
 * buffers, counts and connections. Everything here is plain data in the common subset of C11 and
 * CUDA C++; sizes are asserted because both compilers must agree. core/launch.c fills works, the
 * interpreter (run_sched.h, run_pairs.h) reads them.
 */
#ifndef CCL_KERNEL_WORK_H
#define CCL_KERNEL_WORK_H

#include <stddef.h>
#include <stdint.h>

#ifndef __cplusplus
#include <assert.h>
#endif

/* ---- schedules ---- */

/* Where a range lives. IN and OUT are indexed by slot: the ranks of the communicator sorted by
 * executor, so that the ranks of one executor are neighbours. CONN is indexed by link. */
enum ccl_space { CCL_NONE, CCL_IN, CCL_OUT, CCL_CONN };

/* FOLD: all inputs are reduced in order, in[0] then in[1], and the result goes to every output
 * (one input: a copy). MAP: input j is copied to output j. MEET: all executors wait for each other.
 */
enum ccl_kind { CCL_FOLD, CCL_MAP, CCL_MEET };

enum {
    CCL_STEP_POST = 1,    /* FOLD: the result is final; integer averages divide here */
    CCL_STEP_PUBLISH = 2, /* MEET: publishes this executor's buffers before meeting */
    CCL_STEP_LATE = 4,    /* works on the round `lag` rounds ago: a later stage of a pipeline */
    CCL_STEP_KEEP = 8,    /* the slots read here are read again by a later step of the round */
    CCL_STEP_FILL = 16,   /* the slots written here are completed by a later step of the round */
};

/* Element j of a range is slot (or link) first + j * hop, at block block + j * block_hop of that
 * buffer. Blocks are rank blocks; those of a link are places in its slot, a piece each. */
struct ccl_range {
    uint8_t space, spare;
    uint16_t first, count;
    int16_t hop, block, block_hop;
};

struct ccl_step {
    uint8_t kind, flags;
    uint16_t piece; /* which piece of the round */
    struct ccl_range in[2], out[2];
};

/* One end of a connection that a schedule uses. */
struct ccl_link {
    uint16_t peer; /* executor at the other end; the own one for a loopback */
    uint16_t is_send;
};

/* ---- connections ---- */

enum { CCL_FIFO_MAX_DEPTH = 64 };

/* How data passes a connection. SIMPLE: a flag for each slot, for large pieces (fifo.h). LL: a flag
 * beside each 4 bytes, for small ones (ll.h). LL128: a flag in each 128 bytes, for those between;
 * only GPUs write so much at once. A connection has a ring for each. */
enum ccl_proto { CCL_PROTO_SIMPLE, CCL_PROTO_LL, CCL_PROTO_LL128, CCL_NPROTOS };

/* The ring of LL: data bytes of a slot (a multiple of 64), depth, bytes that a slot takes. */
enum { CCL_LL_SLOT_BYTES = 4096, CCL_LL_DEPTH = 16 };
#define CCL_LL_STRIDE(slot_bytes) (2 * (size_t)(slot_bytes) + 64)
/* The same of LL128, whose lines hold 112 bytes of data each; a place of 64 may take a line. */
enum { CCL_LL128_SLOT_BYTES = 14336, CCL_LL128_DEPTH = 8, CCL_LL128_LINE_DATA = 112 };
#define CCL_LL128_STRIDE(slot_bytes) (2 * (size_t)(slot_bytes))

/* What the sender says of a slot, in one cache line: the receiver misses once for a short message.
 */
struct ccl_fifo_line {
    uint64_t ready; /* number of the message in the slot, from 1 */
    uint64_t meta;
    char data[48]; /* of a message that fits */
};

/* A FIFO of slots in memory that both ends map. The ring of SIMPLE follows at CCL_FIFO_RING_AT,
 * that of LL after it. */
struct ccl_fifo {
    uint64_t credit; /* slots drained so far; written by the receiver */
    uint64_t spare1[7];
    uint64_t ll_credit; /* the same for the slots of LL, given for several at a time */
    uint64_t spare2[7];
    struct ccl_fifo_line lines[CCL_FIFO_MAX_DEPTH]; /* of the slots of SIMPLE */
};
/* A whole number of pages: a copy from a page's start to 128 bytes behind another's would run at
 * half speed, since its loads look like its latest stores. */
enum { CCL_FIFO_RING_AT = 8192 };

/* A signature: what ranks must agree on, hashed, below the low bits of the operation's number. */
#define CCL_SIGN_HASH_BITS 48
#define CCL_SIGN_HASH      (((uint64_t)1 << CCL_SIGN_HASH_BITS) - 1)

struct ccl_bell;

/* ---- boards ---- */

/* A collective as its executor called it. */
struct ccl_call {
    uint64_t number;  /* of the collective, from 1; 0: none */
    uint64_t what[2]; /* that in which all ranks must agree; core/agree.c */
    uint64_t how;     /* low CCL_CALL_RANK_BITS: one rank that called it; above: hash of its plan,
                         0 before the launch */
};
enum { CCL_CALL_RANK_BITS = 16 };

/* The latest calls of an executor, by number; all others may read it. */
enum { CCL_NCALLS = 256 };
struct ccl_board {
    struct ccl_call calls[CCL_NCALLS];
};

/* One end of a FIFO; private to the executor (or rank) that owns it. */
struct ccl_conn {
    struct ccl_fifo *fifo;
    char *ring;
    uint64_t seq; /* slots filled (sender) or drained (receiver) so far by this end */
    uint32_t slot_bytes;
    uint16_t depth;
    uint16_t peer;         /* executor, or rank for send/recv connections */
    struct ccl_bell *bell; /* of the process at the other end */
    uint64_t credit_seen;  /* the sender's latest look at credit, or ll_credit */
    char *scratch;         /* LL: [slot_bytes] plain data of the slot in work */
    /* Between ranks: the sender's memory that the receiver reaches, as it lies in this process. */
    const char *home;
    uint64_t home_bytes; /* 0: none */
    uint64_t place_from; /* bytes of a message that is fetched from where it lies */
    uint64_t ntaken;     /* messages issued so far; of the host side */
    uint64_t turn;       /* number of the message whose turn it is */
};

/* Of a message between ranks, the line's meta tells the bytes. A large one whose source the
 * receiver reaches takes one slot, whose line holds the place of the source, and this bit. */
#define CCL_META_PLACE ((uint64_t)1 << 63)
enum { CCL_PLACE_FROM_BYTES = 32 << 10 }; /* between processes: below, two copies are no slower */

/* ---- joins ---- */

/* A member's stream meets the executor's kernel here when no event can join them: the stream's
 * gate kernel raises the gate and stays until it was let go as often. Counts, so that nobody but
 * the two kernels writes them: a captured graph can be replayed. Uses do not overlap. */
struct ccl_gate {
    uint32_t raised; /* release by the gate kernel: the stream's earlier work is visible */
    uint32_t gone;   /* release when the executor's kernel is done: its results are visible */
};

/* ---- collectives ---- */

/* What a rank brings to an operation. */
struct ccl_slot {
    const void *in;
    void *out;
    const void *scalar_at; /* scale factor read when the kernel runs; NULL: `scalar` */
    uint64_t scalar;       /* bits of the factor in the operation's type, low bytes first */
};

/* What a meeting needs, per channel. Flags, published slots and signatures are shared by the
 * executors that meet. There are two sets of what is published, used in turn: nobody publishes for
 * the operation after the next before all have met for the next, and so have read this one's.
 *
 * A published buffer is its place in the memory that its process shares, or CCL_OUT_OF_REACH.
 * Inside one process all memory is shared and a place is an address. */
struct ccl_meet {
    uint64_t *flags;            /* [nexecs * CCL_MEET_STRIDE]: epochs reached, one line each */
    struct ccl_slot *published; /* [2][nslots] */
    uint64_t *signs;            /* [2][nexecs] published signature of the operation */
    struct ccl_slot *table;     /* [nslots] private: the published slots as addresses */
    const uintptr_t *bases;     /* [nslots] where place 0 of the slot's process lies in this one */
    uintptr_t shared_bytes;     /* of this process: places are below */
    uint64_t epoch;             /* of this executor */
    uint64_t npublished;        /* by this executor so far */
    struct ccl_bell *const *bells; /* of the processes that meet */
    uint32_t nbells;
};
enum { CCL_MEET_STRIDE = 8 };
#define CCL_OUT_OF_REACH UINTPTR_MAX

/* What a kernel puts in the error word: ncclInvalidUsage. */
enum { CCL_ERROR_MISMATCH = 5 };

/* Whom a kernel waits for; read by chorus_comm_status. kind << 32 | peer. */
enum ccl_wait_kind {
    CCL_WAIT_NONE,
    CCL_WAIT_GATE,
    CCL_WAIT_MEET,
    CCL_WAIT_DATA,
    CCL_WAIT_CREDIT,
    CCL_WAIT_DISAGREE,
    CCL_WAIT_RAISE
};

enum ccl_redop_kind { CCL_SUM, CCL_PROD, CCL_MAX, CCL_MIN };

enum {
    CCL_WORK_SCALE = 1,  /* sources in space IN are multiplied by their slot's scalar */
    CCL_WORK_DIVIDE = 2, /* steps with CCL_STEP_POST divide by `divisor` */
    /* Local path of the GPU: the only step is a MAP from slot to slot whose pair j moves
     * local[j].scalar bytes; the type is one of a byte, count_elems the longest. */
    CCL_WORK_LENGTHS = 4,
    CCL_WORK_NEAR = 8,     /* GPU: all executors are on this device */
    CCL_WORK_COPIES = 16,  /* GPU, several executors: a collective that reduces nothing */
    CCL_WORK_STREAMS = 32, /* host: what is written does not stay in a cache */
};

enum { CCL_MAX_LOCAL = 96 };

/* One way to do an operation: a schedule, and how it cuts the elements. On a GPU with several
 * executors steps and connections lie in memory of the device; cuda_conn.h has the latter. */
struct ccl_body {
    const struct ccl_step *steps;
    struct ccl_conn *const *conns; /* [nchannels][nlinks]; on a GPU of struct ccl_cuda_conn */
    uint64_t chan_elems;           /* of a block, per channel */
    uint64_t piece_elems;
    uint32_t nrounds;
    uint16_t nsteps, npieces, nlinks;
    uint8_t lag;   /* rounds that CCL_STEP_LATE steps are behind */
    uint8_t proto; /* enum ccl_proto */
    uint8_t packs; /* a slot has places for several pieces */
};

/* With two bodies the first needs the buffers of other processes. It begins with a meeting at which
 * all executors see the same: if some buffer is out of reach, all run the second instead. */
struct ccl_work {
    struct ccl_body body[2];
    struct ccl_meet *meets; /* [nchannels], NULL: nothing meets; on a GPU struct ccl_cuda_meet */
    struct ccl_gate *gates; /* [ngates] raised before the first step, let go at the end */
    uint32_t *arrived;      /* GPU: CTAs that are done; back at 0 after the last */
    uint32_t *done; /* GPU: becomes done_value at the end, for other processes; may be NULL */
    const uint32_t *abort_word;
    uint64_t *note;       /* what it waits for, for chorus_comm_status */
    uint64_t *second;     /* set to ticket + 1 when the second body runs */
    uint32_t *error;      /* set to an ncclResult_t when members disagree */
    void *owner;          /* of core: found again when the kernel retires */
    uint64_t count_elems; /* of a block */
    uint64_t *turn;       /* with connections or meetings: the kernel runs when it is `ticket` */
    uint64_t ticket;
    uint64_t signature;                    /* equal on all executors that run the same operation */
    const struct ccl_board *const *boards; /* [nexecs]; NULL: nobody to disagree with */
    struct ccl_call call;
    uint32_t divisor, done_value;
    uint16_t nchannels, nbodies;
    uint16_t first_local, nlocal, nslots, nexecs, self, ngates;
    uint8_t type, redop, flags;
    uint8_t elem_bytes; /* of the type; GPU */
    struct ccl_slot local[CCL_MAX_LOCAL];
};

/* ---- send and receive ---- */

/* In order of time. POSTED: a place was sent, the receiver has not copied from it yet. */
enum { CCL_PAIR_START, CCL_PAIR_MOVING, CCL_PAIR_POSTED, CCL_PAIR_DONE };

enum { CCL_PAIR_SEND, CCL_PAIR_RECV };

/* One half of a message. Those of a connection go in the order in which they were issued,
 * whatever their kernels and streams. */
struct ccl_pair {
    const char *src;
    char *dst;
    uint64_t bytes, moved;
    uint64_t posted; /* slots of the connection up to and with the one that holds the place */
    struct ccl_conn *conn;
    uint64_t ticket; /* number of the message on the connection */
    uint64_t *note;  /* what it waits for, for chorus_comm_status */
    uint16_t rank;   /* whose half it is */
    uint16_t role, state, spare;
};

struct ccl_pairs {
    struct ccl_pair *pairs;
    const struct ccl_board *const *boards; /* [nexecs] as in ccl_work */
    struct ccl_call call; /* the latest collective, which may have become these messages */
    uint32_t npairs, nexecs, self, nwaits;
    uint32_t streams; /* what is received does not stay in a cache */
    const uint32_t *abort_word;
    uint32_t *error;
    struct ccl_bell *bell; /* of this process */
};

/* ---- one-sided operations ---- */

/* A wait for signals: between two ranks so many were raised, and of those so many taken. Both
 * counts wrap; fewer than 2^31 signals are ever waiting. */
struct ccl_take {
    const uint32_t *raised; /* written by kernels of the sender */
    uint32_t *taken;        /* by kernels of the receiver alone */
    uint32_t count, peer;
};

/* What a kernel of a host device does: PUT writes and raises, TAKE waits. Those of a rank go one
 * after the other. */
enum { CCL_RMA_PUT, CCL_RMA_TAKE };
struct ccl_rma_op {
    const char *src;
    char *dst;
    uint64_t bytes, moved; /* of a PUT; no bytes: the signal alone */
    uint32_t *raise;       /* of a PUT */
    struct ccl_bell *bell; /* of the process that waits for it */
    struct ccl_take take;
    uint64_t *note;         /* what a TAKE waits for, for chorus_comm_status */
    uint32_t after;         /* 1 + place of the rank's operation before; 0: none */
    uint16_t kind, is_done; /* is_done: of this kernel alone */
};
struct ccl_rma {
    struct ccl_rma_op *ops;
    const uint32_t *abort_word;
    uint32_t nops;
    uint32_t streams; /* what is written does not stay in a cache */
};

/* Kernels of a GPU, where streams copy what a put writes. */
struct ccl_raise_args {
    uint32_t *word;
};
enum { CCL_TAKES_MAX = 64 };
struct ccl_takes_args {
    const uint32_t *abort_word;
    uint64_t *note;
    uint32_t ntakes, spare;
    struct ccl_take takes[CCL_TAKES_MAX];
};

#ifndef __cplusplus
static_assert(sizeof(struct ccl_range) == 12, "ABI of ranges");
static_assert(sizeof(struct ccl_step) == 52, "ABI of steps");
static_assert(sizeof(struct ccl_fifo_line) == 64, "a line of a FIFO is a cache line");
static_assert(sizeof(struct ccl_fifo) <= CCL_FIFO_RING_AT, "the ring follows the flags");
static_assert(sizeof(struct ccl_slot) == 32, "ABI of slots");
static_assert(sizeof(struct ccl_work) <= 4000, "a work fits the launch arguments");
#endif

#endif
