/* SipHash-2-4 as published: two rounds a word, four at the end. Called by boot for ids, frames and
 * socket names. Byte order is little endian whatever the host's, so tags travel between hosts. */
#include "base/mac.h"

#include <string.h>

static uint64_t rotate(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

static void mix(uint64_t v[4], int rounds)
{
    for (int i = 0; i < rounds; i++) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

static uint64_t load_word(const uint8_t *bytes)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < 8; i++) word |= (uint64_t)bytes[i] << (8 * i);
    return word;
}

static void take_word(struct ccl_mac *mac, uint64_t word)
{
    mac->v[3] ^= word;
    mix(mac->v, 2);
    mac->v[0] ^= word;
}

void ccl_mac_start(struct ccl_mac *mac, const uint8_t key[CCL_KEY_BYTES])
{
    uint64_t low = load_word(key);
    uint64_t high = load_word(key + 8);
    mac->v[0] = low ^ 0x736f6d6570736575u;
    mac->v[1] = high ^ 0x646f72616e646f6du;
    mac->v[2] = low ^ 0x6c7967656e657261u;
    mac->v[3] = high ^ 0x7465646279746573u;
    mac->tail = 0;
    mac->seen_bytes = 0;
}

void ccl_mac_add(struct ccl_mac *mac, const void *data, size_t size_bytes)
{
    const uint8_t *bytes = data;
    size_t at = 0;
    /* Single bytes until a word boundary, then whole words, then the rest. */
    while (at < size_bytes) {
        unsigned filled = (unsigned)(mac->seen_bytes % 8);
        if (filled == 0 && size_bytes - at >= 8) {
            take_word(mac, load_word(bytes + at));
            mac->seen_bytes += 8;
            at += 8;
            continue;
        }
        mac->tail |= (uint64_t)bytes[at++] << (8 * filled);
        mac->seen_bytes++;
        if (filled == 7) {
            take_word(mac, mac->tail);
            mac->tail = 0;
        }
    }
}

uint64_t ccl_mac_end(struct ccl_mac *mac)
{
    take_word(mac, mac->tail | mac->seen_bytes << 56);
    mac->v[2] ^= 0xff;
    mix(mac->v, 4);
    return mac->v[0] ^ mac->v[1] ^ mac->v[2] ^ mac->v[3];
}

uint64_t ccl_mac(const uint8_t key[CCL_KEY_BYTES], const void *data, size_t size_bytes)
{
    struct ccl_mac mac;
    ccl_mac_start(&mac, key);
    ccl_mac_add(&mac, data, size_bytes);
    return ccl_mac_end(&mac);
}

void ccl_mac_derive(uint8_t out[CCL_KEY_BYTES], const uint8_t key[CCL_KEY_BYTES],
                    const char *purpose, const void *data, size_t size_bytes)
{
    uint8_t made[CCL_KEY_BYTES]; /* `out` may be `key` or part of `data` */
    for (uint8_t half = 0; half < 2; half++) {
        struct ccl_mac mac;
        ccl_mac_start(&mac, key);
        ccl_mac_add(&mac, &half, 1);
        ccl_mac_add(&mac, purpose, strlen(purpose) + 1);
        ccl_mac_add(&mac, data, size_bytes);
        uint64_t tag = ccl_mac_end(&mac);
        for (unsigned i = 0; i < 8; i++) made[half * 8 + i] = (uint8_t)(tag >> (8 * i));
    }
    memcpy(out, made, sizeof made);
}

int ccl_mac_equal(uint64_t a, uint64_t b)
{
    return (a ^ b) == 0;
}
