/* Framing. Called by link, door and root for every byte that comes from outside. Invariant: no
 * function reads past the size it is given, whatever the bytes say. */
#include "boot/wire.h"

#include <ctype.h>
#include <string.h>

static const uint32_t frame_magic = 0x53524843; /* "CHRS" */

/* Payload limits of each type; `each` is added once a rank. */
static const struct {
    uint32_t least, most, each;
} limits[CCL_WIRE_NTYPES] = {
    [CCL_WIRE_CHALLENGE] = {CCL_WIRE_NONCE_BYTES, CCL_WIRE_NONCE_BYTES, 0},
    [CCL_WIRE_HELLO] = {CCL_WIRE_HELLO_BYTES, CCL_WIRE_HELLO_BYTES, 0},
    [CCL_WIRE_WELCOME] = {CCL_WIRE_NONCE_BYTES, CCL_WIRE_NONCE_BYTES, 0},
    [CCL_WIRE_GATHER] = {0, CCL_WIRE_GATHER_BYTES, 0},
    [CCL_WIRE_GATHERED] = {0, 0, CCL_WIRE_GATHER_BYTES},
    [CCL_WIRE_FAIL] = {4, CCL_WIRE_FAIL_BYTES, 0},
    [CCL_WIRE_LEAVE] = {0, 0, 0},
    [CCL_WIRE_MESH_HELLO] = {CCL_WIRE_HELLO_BYTES, CCL_WIRE_HELLO_BYTES, 0},
    [CCL_WIRE_MESH_WELCOME] = {0, 0, 0},
    [CCL_WIRE_MESH_FD] = {0, 0, 0},
    [CCL_WIRE_LETTER] = {CCL_WIRE_LETTER_BYTES, CCL_WIRE_LETTER_BYTES, 0},
};

const char *ccl_wire_verdict_text(enum ccl_wire_verdict verdict)
{
    switch (verdict) {
    case CCL_WIRE_OK: return "fine";
    case CCL_WIRE_MORE: return "incomplete";
    case CCL_WIRE_BAD_MAGIC: return "not a frame of this protocol";
    case CCL_WIRE_BAD_TYPE: return "a type that is not expected now";
    case CCL_WIRE_BAD_LENGTH: return "a length out of its limits";
    case CCL_WIRE_BAD_SEQUENCE: return "out of sequence";
    default: return "a wrong checksum or secret";
    }
}

static void put(uint8_t *out, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) out[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t *in, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) value |= (uint64_t)in[i] << (8 * i);
    return value;
}

static uint64_t body_tag(const uint8_t *head, const uint8_t *key, const void *payload)
{
    struct ccl_mac mac;
    ccl_mac_start(&mac, key);
    ccl_mac_add(&mac, head, 24);
    ccl_mac_add(&mac, payload, get(head + 8, 4));
    return ccl_mac_end(&mac);
}

void ccl_wire_seal(uint8_t head[CCL_WIRE_HEAD_BYTES], const struct ccl_wire_head *what,
                   const uint8_t *key, uint32_t sequence, const void *payload)
{
    put(head, frame_magic, 4);
    put(head + 4, what->type, 4);
    put(head + 8, what->length_bytes, 4);
    put(head + 12, sequence, 4);
    put(head + 16, ccl_mac(key, head, 16), 8);
    put(head + 24, body_tag(head, key, payload), 8);
}

enum ccl_wire_verdict ccl_wire_check_head(const uint8_t head[CCL_WIRE_HEAD_BYTES],
                                          const struct ccl_wire_rule *rule,
                                          struct ccl_wire_head *out)
{
    if (get(head, 4) != frame_magic) return CCL_WIRE_BAD_MAGIC;
    if (!ccl_mac_equal(get(head + 16, 8), ccl_mac(rule->key, head, 16))) return CCL_WIRE_BAD_TAG;
    uint64_t type = get(head + 4, 4); /* with the zero field, which must stay zero */
    if (type >= CCL_WIRE_NTYPES || (CCL_WIRE_BIT(type) & rule->allowed) == 0)
        return CCL_WIRE_BAD_TYPE;
    uint64_t length = get(head + 8, 4);
    uint64_t most = limits[type].most + (uint64_t)limits[type].each * (unsigned)rule->nranks;
    if (length < limits[type].least || length > most) return CCL_WIRE_BAD_LENGTH;
    if (get(head + 12, 4) != rule->sequence) return CCL_WIRE_BAD_SEQUENCE;
    out->type = (unsigned)type;
    out->length_bytes = length;
    return CCL_WIRE_OK;
}

enum ccl_wire_verdict ccl_wire_check_body(const uint8_t head[CCL_WIRE_HEAD_BYTES],
                                          const uint8_t *key, const void *payload)
{
    int same = ccl_mac_equal(get(head + 24, 8), body_tag(head, key, payload));
    return same ? CCL_WIRE_OK : CCL_WIRE_BAD_TAG;
}

enum ccl_wire_verdict ccl_wire_parse(const uint8_t *bytes, size_t size_bytes,
                                     const struct ccl_wire_rule *rule, struct ccl_wire_head *out)
{
    if (size_bytes < CCL_WIRE_HEAD_BYTES) return CCL_WIRE_MORE;
    enum ccl_wire_verdict verdict = ccl_wire_check_head(bytes, rule, out);
    if (verdict != CCL_WIRE_OK) return verdict;
    if (size_bytes - CCL_WIRE_HEAD_BYTES < out->length_bytes) return CCL_WIRE_MORE;
    return ccl_wire_check_body(bytes, rule->key, bytes + CCL_WIRE_HEAD_BYTES);
}

/* Texts of peers end up in logs and terminals. */
static void clean_text(char *text, size_t size_bytes)
{
    text[size_bytes - 1] = '\0';
    for (char *at = text; *at != '\0'; at++)
        if (!isprint((unsigned char)*at)) *at = '?';
}

void ccl_wire_put_hello(uint8_t out[CCL_WIRE_HELLO_BYTES], const struct ccl_wire_hello *hello)
{
    memcpy(out, hello->nonce, CCL_WIRE_NONCE_BYTES);
    put(out + 16, hello->nranks, 4);
    put(out + 20, hello->rank, 4);
    put(out + 24, hello->version, 4);
    put(out + 28, hello->pid, 4);
    put(out + 32, hello->build, 8);
    memcpy(out + 40, hello->host, CCL_WIRE_HOST_BYTES);
}

void ccl_wire_get_hello(const uint8_t in[CCL_WIRE_HELLO_BYTES], struct ccl_wire_hello *hello)
{
    memcpy(hello->nonce, in, CCL_WIRE_NONCE_BYTES);
    hello->nranks = (uint32_t)get(in + 16, 4);
    hello->rank = (uint32_t)get(in + 20, 4);
    hello->version = (uint32_t)get(in + 24, 4);
    hello->pid = (uint32_t)get(in + 28, 4);
    hello->build = get(in + 32, 8);
    memcpy(hello->host, in + 40, CCL_WIRE_HOST_BYTES);
    clean_text(hello->host, sizeof hello->host);
}

void ccl_wire_put_letter(uint8_t out[CCL_WIRE_LETTER_BYTES], const struct ccl_wire_letter *letter)
{
    put(out, letter->from, 4);
    put(out + 4, letter->to, 4);
    put(out + 8, letter->nranks, 4);
    memcpy(out + 12, letter->call, CCL_WIRE_CALL_BYTES);
    memcpy(out + 12 + CCL_WIRE_CALL_BYTES, letter->id, CCL_WIRE_ID_BYTES);
}

void ccl_wire_get_letter(const uint8_t in[CCL_WIRE_LETTER_BYTES], struct ccl_wire_letter *letter)
{
    letter->from = (uint32_t)get(in, 4);
    letter->to = (uint32_t)get(in + 4, 4);
    letter->nranks = (uint32_t)get(in + 8, 4);
    memcpy(letter->call, in + 12, CCL_WIRE_CALL_BYTES);
    memcpy(letter->id, in + 12 + CCL_WIRE_CALL_BYTES, CCL_WIRE_ID_BYTES);
    clean_text(letter->call, sizeof letter->call);
}

size_t ccl_wire_put_fail(uint8_t out[CCL_WIRE_FAIL_BYTES], const struct ccl_wire_fail *fail)
{
    size_t length = strnlen(fail->text, CCL_WIRE_TEXT_BYTES);
    put(out, fail->code, 4);
    memcpy(out + 4, fail->text, length);
    return 4 + length;
}

void ccl_wire_get_fail(const uint8_t *in, size_t size_bytes, struct ccl_wire_fail *fail)
{
    size_t length = size_bytes - 4 < CCL_WIRE_TEXT_BYTES ? size_bytes - 4 : CCL_WIRE_TEXT_BYTES;
    fail->code = (uint32_t)get(in, 4);
    memset(fail->text, 0, sizeof fail->text);
    memcpy(fail->text, in + 4, length);
    clean_text(fail->text, sizeof fail->text);
}

void ccl_wire_hello_key(uint8_t out[CCL_KEY_BYTES], const uint8_t *secret, const uint8_t *nonce)
{
    ccl_mac_derive(out, secret, "hello", nonce, CCL_WIRE_NONCE_BYTES);
}

void ccl_wire_link_key(uint8_t key[CCL_KEY_BYTES], const uint8_t *hello_nonce)
{
    ccl_mac_derive(key, key, "link", hello_nonce, CCL_WIRE_NONCE_BYTES);
}
