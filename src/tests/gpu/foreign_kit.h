/* The scene of test_foreign: an owner that allocates and exports, a user that imports, each a
 * process with a CUDA context, and the test that tells both what to do, call by call, and sees what
 * comes of it. The test itself makes no CUDA call, so it may fork and kill.
 *
 * Contents are a pattern of a seed and the place in the block, so that a wrong byte, allocation or
 * time is seen. A server whose own CUDA calls fail ends, and the test with it.
 */
#ifndef GPU_FOREIGN_KIT_H
#define GPU_FOREIGN_KIT_H

#include "device/cuda_foreign.h"

#include <stdatomic.h>
#include <sys/types.h>

enum { KIT_PAIRS = 2, KIT_BLOCKS = 64, KIT_PINS = 64, KIT_REFS = 16, KIT_TEXT = 400 };
#define KIT_CHUNK ((size_t)2 << 20)

enum kit_memory {
    KIT_MALLOC,
    KIT_CHUNKS,  /* chunks of virtual memory side by side, as expandable segments are */
    KIT_PRIVATE, /* the same without a handle type */
    KIT_POOL,
    KIT_SHARED_POOL, /* of a pool made for export */
    KIT_MANAGED,
    KIT_PINNED,
    KIT_HEAP,
};

enum kit_op {
    KIT_STATE, /* free_bytes and nfds */
    /* the owner; blocks are numbered */
    KIT_ALLOC,  /* block, memory, bytes, chunk_bytes */
    KIT_FREE,   /* block */
    KIT_REMAP,  /* block, chunk: other memory at the same addresses */
    KIT_FILL,   /* block, seed */
    KIT_VERIFY, /* block, offset, bytes, seed */
    KIT_EXPORT, /* pair, block, offset, bytes, capture, repeat */
    KIT_SWEEP,  /* pair */
    KIT_STORM,  /* either: refs are those of the first blocks, all of `bytes` */
    /* the user */
    KIT_IMPORT, /* pair, ref, bytes, capture, repeat; pin; checked against seed from `offset` on */
    KIT_LOOK,   /* pin, offset within it, bytes, seed: the content again */
    KIT_WRITE,  /* pin, seed: writes the whole buffer */
    KIT_UNPIN,  /* pin */
    KIT_COLLECT,
    KIT_LIMIT, /* limits */
    KIT_CLOSE, /* pair */
    KIT_QUIT,
};

struct kit_call {
    enum kit_op op;
    int pair, block, pin, chunk, repeat;
    enum kit_memory memory;
    int capture; /* 0, or the capture mode + 1 that the thread is in meanwhile */
    size_t bytes, offset, chunk_bytes; /* chunk_bytes 0: KIT_CHUNK */
    uint64_t seed, timeout_ms;
    struct ccl_foreign_ref ref, refs[KIT_REFS];
    struct ccl_import_limits limits;
};

struct kit_answer {
    ncclResult_t rc;
    char text[KIT_TEXT]; /* when rc is no success */
    unsigned long long wrong;
    struct ccl_foreign_ref ref;
    uint64_t address, physical; /* of a block, and the number of its physical memory */
    double ns;                  /* of an export or import, on average where repeat is set */
    struct ccl_import_usage usage;
    size_t free_bytes;
    int nfds;
};

/* A server, as the test and itself see it. */
struct kit_server {
    _Atomic uint32_t asked, answered;
    struct kit_call call;
    struct kit_answer answer;
};

struct kit_scene {
    struct kit_server *servers; /* shared: the owner, the user */
    pid_t pids[2];
    int sockets[KIT_PAIRS][2];
};
enum { KIT_OWNER, KIT_USER };

/* Starts both; skips the case where no GPU is. */
void kit_open(struct kit_scene *scene);
/* Ends both and checks that they end well; one that was killed is left out. */
void kit_close(struct kit_scene *scene);
void kit_kill(struct kit_scene *scene, int who);

/* kit_ask is kit_start and kit_finish. Fails the case when the server ends or does not answer. */
struct kit_answer kit_ask(struct kit_scene *scene, int who, const struct kit_call *call);
void kit_start(struct kit_scene *scene, int who, const struct kit_call *call);
struct kit_answer kit_finish(struct kit_scene *scene, int who);

/* The same with a check that the call succeeded and found no wrong byte. */
#define KIT_DO(scene, who, ...)                                                                    \
    kit_good(kit_ask(scene, who, &(struct kit_call){__VA_ARGS__}), __FILE__, __LINE__)
struct kit_answer kit_good(struct kit_answer answer, const char *file, int line);

/* Threads of one server use all its exporters or importers (the others are NULL) on the same n
 * buffers at once. Returns how many calls went wrong. */
struct kit_storm {
    struct ccl_exporter *exporters[KIT_PAIRS];
    struct ccl_importer *importers[KIT_PAIRS];
    int n;
    size_t bytes;
    struct ccl_foreign_ref refs[KIT_REFS];
    const char *addresses[KIT_REFS];
    uint64_t tags[KIT_REFS];
};
unsigned kit_storm(struct kit_storm *storm);

/* Cases of files of their own. */
void test_torture(void);
void test_overlaps(void);
void test_new_blocks(void);
void test_vehicle(void);

/* The life of a server. Does not return. */
void kit_serve(struct kit_server *server, int who, int sockets[KIT_PAIRS]);

#endif
