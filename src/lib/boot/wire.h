/* Frames of the bootstrap and the mesh: pure functions over byte buffers, no I/O, so that they can
 * be fuzzed.
 *
 * A frame is a 32-byte header (little endian) and a payload:
 *   0 magic u32 | 4 type u16 | 6 zero u16 | 8 payload bytes u32 | 12 sequence u32
 *   16 tag of bytes 0-15 u64 | 24 tag of bytes 0-23 and the payload u64
 * The first tag lets a receiver refuse a bad length before it waits for it; both are keyed, by a
 * key that each connection has for itself, and the sequence counts the frames of one direction, so
 * a flipped bit, a stranger's frame and a replayed frame are all refused.
 */
#ifndef CCL_BOOT_WIRE_H
#define CCL_BOOT_WIRE_H

#include "base/mac.h"

#include <stddef.h>
#include <stdint.h>

enum {
    CCL_WIRE_HEAD_BYTES = 32,
    CCL_WIRE_NONCE_BYTES = 16,
    CCL_WIRE_HOST_BYTES = 64,
    CCL_WIRE_TEXT_BYTES = 1024,    /* of a failure, with its end mark */
    CCL_WIRE_CALL_BYTES = 32,      /* of a function's name, with its end mark */
    CCL_WIRE_ID_BYTES = 128,       /* of an ncclUniqueId */
    CCL_WIRE_GATHER_BYTES = 65536, /* of one rank in an all-gather */
    CCL_WIRE_MAX_RANKS = 32768
};

enum ccl_wire_type {
    CCL_WIRE_CHALLENGE = 1, /* who accepted -> who connected: nonce */
    CCL_WIRE_HELLO,         /* rank -> root: struct ccl_wire_hello */
    CCL_WIRE_WELCOME,       /* root -> rank: nonce of the session */
    CCL_WIRE_GATHER,        /* rank -> root: its part */
    CCL_WIRE_GATHERED,      /* root -> rank: all parts in rank order */
    CCL_WIRE_FAIL,          /* either way: struct ccl_wire_fail */
    CCL_WIRE_LEAVE,         /* either way: an orderly end */
    CCL_WIRE_MESH_HELLO,    /* process -> process: struct ccl_wire_hello */
    CCL_WIRE_MESH_WELCOME,  /* process -> process: nothing */
    CCL_WIRE_MESH_FD,       /* process -> process: a descriptor rides along */
    CCL_WIRE_LETTER,        /* process -> process: struct ccl_wire_letter */
    CCL_WIRE_NTYPES
};
#define CCL_WIRE_BIT(type) (1u << (type))

struct ccl_wire_head {
    unsigned type;
    size_t length_bytes; /* of the payload */
};

/* What a receiver accepts now. */
struct ccl_wire_rule {
    const uint8_t *key; /* [CCL_KEY_BYTES] */
    uint32_t sequence;  /* of the next frame */
    unsigned allowed;   /* CCL_WIRE_BITs */
    int nranks;         /* scales the limit of GATHERED */
};

enum ccl_wire_verdict {
    CCL_WIRE_OK,
    CCL_WIRE_MORE, /* not enough bytes yet, nothing wrong so far */
    CCL_WIRE_BAD_MAGIC,
    CCL_WIRE_BAD_TYPE,
    CCL_WIRE_BAD_LENGTH,
    CCL_WIRE_BAD_SEQUENCE,
    CCL_WIRE_BAD_TAG
};

/* A constant text for logs. */
const char *ccl_wire_verdict_text(enum ccl_wire_verdict verdict);

/* Writes the header for a payload. */
void ccl_wire_seal(uint8_t head[CCL_WIRE_HEAD_BYTES], const struct ccl_wire_head *what,
                   const uint8_t *key, uint32_t sequence, const void *payload);

/* Judges a header by itself; on CCL_WIRE_OK *out is safe to act on (its length is in its limit). */
enum ccl_wire_verdict ccl_wire_check_head(const uint8_t head[CCL_WIRE_HEAD_BYTES],
                                          const struct ccl_wire_rule *rule,
                                          struct ccl_wire_head *out);
/* Judges the payload that came with a good header. */
enum ccl_wire_verdict ccl_wire_check_body(const uint8_t head[CCL_WIRE_HEAD_BYTES],
                                          const uint8_t *key, const void *payload);

/* Judges the first frame of a buffer. CCL_WIRE_MORE until it is whole. */
enum ccl_wire_verdict ccl_wire_parse(const uint8_t *bytes, size_t size_bytes,
                                     const struct ccl_wire_rule *rule, struct ccl_wire_head *out);

/* ---- payloads ---- */

/* What a rank (or a process of the mesh, with its index as rank) says of itself. */
struct ccl_wire_hello {
    uint8_t nonce[CCL_WIRE_NONCE_BYTES];
    uint32_t nranks, rank;
    uint32_t version; /* NCCL_VERSION_CODE */
    uint32_t pid;
    uint64_t build; /* hash of whatever all ranks must share */
    char host[CCL_WIRE_HOST_BYTES];
};
enum { CCL_WIRE_HELLO_BYTES = 40 + CCL_WIRE_HOST_BYTES };

void ccl_wire_put_hello(uint8_t out[CCL_WIRE_HELLO_BYTES], const struct ccl_wire_hello *hello);
/* Any bytes are fine; the host name comes out ended and printable. */
void ccl_wire_get_hello(const uint8_t in[CCL_WIRE_HELLO_BYTES], struct ccl_wire_hello *hello);

struct ccl_wire_fail {
    uint32_t code; /* ncclResult_t */
    char text[CCL_WIRE_TEXT_BYTES];
};
enum { CCL_WIRE_FAIL_BYTES = 4 + CCL_WIRE_TEXT_BYTES };

/* Returns the payload's length, which depends on the text's. */
size_t ccl_wire_put_fail(uint8_t out[CCL_WIRE_FAIL_BYTES], const struct ccl_wire_fail *fail);
void ccl_wire_get_fail(const uint8_t *in, size_t size_bytes, struct ccl_wire_fail *fail);

/* What a rank of a communicator tells another one of it: where those meet that take part in a
 * call. */
struct ccl_wire_letter {
    uint32_t from, to;              /* ranks */
    uint32_t nranks;                /* that meet */
    char call[CCL_WIRE_CALL_BYTES]; /* function of the interface */
    uint8_t id[CCL_WIRE_ID_BYTES];  /* ncclUniqueId of the session */
};
enum { CCL_WIRE_LETTER_BYTES = 12 + CCL_WIRE_CALL_BYTES + CCL_WIRE_ID_BYTES };

void ccl_wire_put_letter(uint8_t out[CCL_WIRE_LETTER_BYTES], const struct ccl_wire_letter *letter);
/* Any bytes are fine; the name comes out ended and printable. */
void ccl_wire_get_letter(const uint8_t in[CCL_WIRE_LETTER_BYTES], struct ccl_wire_letter *letter);

/* ---- keys ---- */

/* The key of a hello: only who saw the challenge and knows the secret can make it. */
void ccl_wire_hello_key(uint8_t out[CCL_KEY_BYTES], const uint8_t *secret, const uint8_t *nonce);
/* The key of everything after it: fresh on both sides. */
void ccl_wire_link_key(uint8_t key[CCL_KEY_BYTES], const uint8_t *hello_nonce);

#endif
