/* clique.h: the part of a communicator that lives in this process.
 *
 * A clique holds the ranks of one communicator in this process, their executors, connections and
 * joins. Each executor has a lock for its operations, so that threads of different executors do
 * not meet; the lock of the clique guards what is made once. Words that kernels read
 * need none. Handles (comm.h) point to it; it dies with the last of them.
 */
#ifndef CCL_CORE_CLIQUE_H
#define CCL_CORE_CLIQUE_H

#include "algo/choice.h"
#include "algo/program.h"
#include "base/doorbell.h"
#include "base/shm.h"
#include "boot/mesh.h"
#include "core/chain.h"
#include "core/core.h"
#include "core/gated.h"
#include "core/session.h"
#include "core/track.h"
#include "device/device.h"
#include "kernel/cuda_conn.h"
#include "topo/topo.h"
#include "transport/transport.h"

#include <pthread.h>
#include <stdatomic.h>

#define CCL_ELSEWHERE UINT16_MAX

enum { CCL_NTRANSPORTS = 2, CCL_NCHANNELS = 4, CCL_NRECIPES = 16 };

struct ccl_lead_memory;
struct ccl_peer_arena;
struct ccl_record;
struct ccl_set;
struct ccl_zones;
struct ccl_party;
struct ccl_plan;
struct ccl_recipe;

/* Tickets taken by launched kernels (lock of the executor), and the one that is due. */
struct ccl_turn {
    uint64_t taken, due;
};

/* Sets of one kind. */
struct ccl_sets {
    struct ccl_set *flying, *tail; /* in issue order */
    struct ccl_set *idle;
    struct ccl_set *captured; /* with gates, in graphs */
};

/* A member of a set that is to be held by a gate. */
struct ccl_hold {
    struct ccl_set *set;
    uint16_t member;
    uint16_t parts; /* enum ccl_gate_part that are to come */
};

/* Sends and receives inside an executor of a GPU, core/messages.c. */
struct ccl_set_list {
    struct ccl_set **sets;
    size_t n, room;
};
struct ccl_queue_of_sets {
    struct ccl_set *head, *tail;
};
/* A stream of the executor's own, and an event behind its latest kernel. */
enum { CCL_SIDES_MAX = 16 };
struct ccl_side {
    cudaStream_t stream;
    chorus_event_t done;
};
struct ccl_messages {
    struct ccl_sets sets;
    struct ccl_side sides[CCL_SIDES_MAX];
    size_t nsides;
    struct ccl_queue_of_sets *queues; /* [nlocal * nlocal] by sender, receiver; NULL: none yet */
    struct ccl_set_list opened, complete; /* in the group end in progress */
    struct ccl_set_list together;         /* that become one launch */
};

/* Unmatched sends and receives between two ranks of an executor, oldest first. */
struct ccl_pending {
    struct ccl_pending *next;
    enum ccl_coll coll;
    int rank; /* of the caller, which may have gone meanwhile */
    cudaStream_t stream;
    uint64_t bytes;
    uint64_t group; /* in which it was called, as exec.ngroups */
};
struct ccl_queue {
    struct ccl_pending *head, *tail;
};

/* Messages to and from other executors on GPUs, core/far.c. */
struct ccl_far {
    struct ccl_record *records, *rest; /* of the group end in progress */
    size_t n, room, rest_room;
    struct ccl_far_list *lists; /* halves that kernels read from memory of the host */
};

/* What kernels of an executor tell the host: memory that both reach. */
struct ccl_exec_words {
    uint64_t note;   /* what its kernel waits for, kernel/work.h */
    uint64_t second; /* of its kernels the latest that ran the second body, by ticket + 1 */
    /* Of a message whose halves differ, core/far.c: its ranks, and the bytes of both. */
    uint64_t mismatch[CCL_CUDA_MISMATCH];
};

/* All ranks of the communicator on one device. */
struct ccl_exec {
    _Alignas(64) struct ccl_clique *clique; /* executors of different threads share no line */
    pthread_mutex_t lock;                   /* of what follows; taken before the clique's */
    struct ccl_view view;
    uint16_t index, first_slot, nlocal;
    uint16_t nhere;                           /* of the nlocal ranks, in this process */
    uint16_t *member_of;                      /* [nlocal] place among those; CCL_ELSEWHERE */
    struct ccl_lead *lead;                    /* ranks are in several processes, core/lead.h */
    struct ccl_board *board;                  /* what it called, core/agree.h */
    _Atomic uint64_t audited;                 /* number of the latest call that was compared */
    struct ccl_plan *plans;                   /* schedules made so far */
    struct ccl_recipe *recipes[CCL_NRECIPES]; /* works of recent shapes, core/launch.c */
    struct ccl_conn **conns; /* [nexecs][2][nchannels][CCL_NPROTOS], each made at first use */
    struct ccl_sets collectives;
    struct ccl_set *open; /* first of them that is not launched */
    struct ccl_messages messages;
    struct ccl_hold *holds; /* members whose gates are to be put up, core/meet.c */
    size_t nholds, holds_room;
    struct ccl_gated gated;
    struct ccl_track track; /* of what was launched on a GPU */
    struct ccl_meet meets[CCL_NCHANNELS];
    struct ccl_turn turn; /* of kernels that use connections or meetings */
    struct ccl_exec_words *words;
    struct ccl_cuda_conn *ends; /* of its connections on a GPU, core/zones.h */
    struct ccl_chain chain;     /* of kernels that use them */
    uint32_t nctas;             /* taken from the ledger, core/ledger.h */
    struct ccl_far far;

    struct ccl_queue *queues; /* [nlocal * nlocal] by sender, receiver */
    struct ccl_pending *free_pendings;
    uint64_t ngroups;                               /* of messages, posted so far */
    struct ccl_party *open_parties, *open_tail;     /* of the group end in progress */
    struct ccl_party *flying_parties, *flying_tail; /* launched, oldest first */
    struct ccl_party *free_parties;
};

/* What kernels and the host tell each other: memory that both reach. */
struct ccl_words {
    uint32_t abort; /* kernels poll it; set with the first error */
    uint32_t error; /* kernels set it when members disagree */
};

struct ccl_clique {
    struct ccl_clique *next; /* in the process's registry */
    uint8_t key[16];
    int refs; /* handles; guarded by the registry's lock */
    pthread_mutex_t lock;

    struct ccl_topo *topo;
    uint16_t proc, nlocal_execs;
    struct ccl_exec *execs;    /* [nlocal_execs] */
    struct ccl_board **boards; /* [nexecs] what each executor called, core/agree.h */
    struct ccl_board *own_boards;

    struct ccl_transport *transports[CCL_NTRANSPORTS];
    struct ccl_bell **bells; /* [nprocs] */
    uint32_t slot_bytes;
    uint16_t depth, nchannels; /* nchannels: of connections */
    uint16_t min_channels, max_channels;
    int capability;               /* the least of its GPUs; 0: host devices */
    uint32_t possible;            /* collectives that some algorithm allowed can do, by bit */
    struct ccl_program *programs; /* of CHORUS_SCHEDULE_FILE */
    struct ccl_choice choice;     /* what NCCL_ALGO and NCCL_PROTO allow */
    struct ccl_mesh *mesh;        /* NULL in a single process */
    struct ccl_letters letters;   /* core/session.h */

    /* core/reach.c */
    void *own_meeting;                    /* where executors meet in a single process */
    struct ccl_slot *tables;              /* [nlocal_execs][CCL_NCHANNELS][nranks] */
    uintptr_t *bases;                     /* [nranks] by slot, kernel/work.h */
    const struct ccl_peer_arena **arenas; /* [nprocs] NULL: the own, or not to be mapped */
    struct ccl_lead_memory *lead_memory;  /* core/lead.c; NULL: not needed */
    uint64_t *reaches;                    /* [nprocs] shared: reaches all others' arenas */
    int shares;                           /* all of them do */
    struct ccl_zones *zones;              /* several executors on GPUs, core/zones.h; NULL */

    struct ccl_words *words;
    _Atomic int error; /* first ncclResult_t; the text is set before (release) */
    char error_text[512];
    uint8_t *left;           /* [nprocs] processes that closed their part in order */
    _Atomic uint32_t *halts; /* [nranks] what calls of a rank that wait for others end by */
};

/* Makes or finds the clique of `key` and takes a reference. Every local rank calls it. */
ncclResult_t ccl_clique_attach(const uint8_t key[16], const struct ccl_peer *peers, int nranks,
                               int rank, struct ccl_clique **out);
/* Channels for connections: `usual` unless CHORUS_CHANNELS or a rank's configuration says
 * otherwise, and no more than `most`. */
uint16_t ccl_clique_channels(const struct ccl_clique *clique, uint16_t usual, uint16_t most);
/* Bytes of a slot as the parameters say: NCCL_BUFFSIZE, else CHORUS_SLOT_BYTES. */
uint32_t ccl_clique_slot_bytes(void);
/* Drops a reference; the last one frees everything. */
void ccl_clique_detach(struct ccl_clique *clique);
/* Transports, segments and links; called by the lowest local rank, in this order, each followed
 * by an exchange of results among all ranks. */
ncclResult_t ccl_clique_listen(struct ccl_clique *clique, struct ccl_boot *boot,
                               const _Atomic uint32_t *abort_word);
ncclResult_t ccl_clique_connect(struct ccl_clique *clique);
/* The last of it: from here on a peer's end is seen. */
ncclResult_t ccl_clique_watch(struct ccl_clique *clique);

/* The first failure of the communicator: stores it, ends all kernels, tells the peers unless
 * they told us. Later failures change nothing. Any thread. Returns `code`. */
ncclResult_t ccl_clique_fail(struct ccl_clique *clique, ncclResult_t code, int tell,
                             const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The stored failure, or ncclSuccess. */
ncclResult_t ccl_clique_error(struct ccl_clique *clique);

/* One process writes a board: others that have ranks of the executor write one of their own, which
 * nobody reads. */
void ccl_clique_set_board(struct ccl_clique *clique, uint16_t e, struct ccl_board *board);
/* A new connection end of an executor (or rank) of this process, for one protocol; freed by the
 * caller. Lock of the clique held. */
ncclResult_t ccl_clique_conn(struct ccl_clique *clique, const struct ccl_fifo_id *id,
                             enum ccl_proto proto, int is_send, struct ccl_conn **out);

/* Takes the lock of an executor. It is held for microseconds by threads that come together, and all
 * of them wait for the slowest: who finds it taken gives up its core for a while before it sleeps.
 */
void ccl_exec_lock(struct ccl_exec *exec);
struct ccl_exec *ccl_clique_exec(struct ccl_clique *clique, int rank);
/* Calls `work` if no executor of the process has anything under way on a GPU, nor gets anything
 * meanwhile; else it does nothing. */
void ccl_clique_rest(void (*work)(void *), void *argument);
/* Gives one descriptor to all processes and hands theirs to `take`, which may dup them. */
ncclResult_t ccl_clique_swap(struct ccl_clique *clique, int fd,
                             ncclResult_t (*take)(struct ccl_clique *, int proc, int fd));
/* One process holds all ranks. */
static inline int ccl_clique_is_whole(const struct ccl_clique *clique)
{
    return clique->topo->nprocs == 1;
}
/* Several executors on GPUs. */
static inline int ccl_clique_spans(const struct ccl_clique *clique)
{
    return clique->topo->nexecs > 1 && clique->topo->peers[0].is_gpu;
}
/* All buffers can be addressed by whoever runs the kernels. */
static inline int ccl_clique_maps_all(const struct ccl_clique *clique)
{
    if (clique->topo->nexecs == 1) return 1;
    return ccl_clique_is_whole(clique) && !ccl_clique_spans(clique);
}
/* The collective becomes sends and receives. */
static inline int ccl_clique_expands(const struct ccl_clique *clique, enum ccl_coll coll)
{
    return coll >= CCL_ALL_TO_ALL && coll < CCL_NCOLLS && !ccl_clique_maps_all(clique);
}

#endif
