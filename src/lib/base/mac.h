/* Keyed checksums: SipHash-2-4 (Aumasson and Bernstein, 2012) with a 128-bit key and 64-bit tag.
 *
 * A tag can be made only by a holder of the key, so it both detects flipped bits and keeps out
 * strangers. It authenticates; it does not hide anything.
 */
#ifndef CCL_BASE_MAC_H
#define CCL_BASE_MAC_H

#include <stddef.h>
#include <stdint.h>

enum { CCL_KEY_BYTES = 16 };

/* A tag in the making, for data that lies in several pieces. */
struct ccl_mac {
    uint64_t v[4];
    uint64_t tail; /* bytes that do not fill a word yet, little endian */
    uint64_t seen_bytes;
};

void ccl_mac_start(struct ccl_mac *mac, const uint8_t key[CCL_KEY_BYTES]);
void ccl_mac_add(struct ccl_mac *mac, const void *data, size_t size_bytes);
uint64_t ccl_mac_end(struct ccl_mac *mac);

/* The tag of one piece; equal to start, add, end. */
uint64_t ccl_mac(const uint8_t key[CCL_KEY_BYTES], const void *data, size_t size_bytes);

/* A new key from `key`, a purpose and data (nonces). Keys of different purposes or data are
 * independent for whoever does not know `key`. */
void ccl_mac_derive(uint8_t out[CCL_KEY_BYTES], const uint8_t key[CCL_KEY_BYTES],
                    const char *purpose, const void *data, size_t size_bytes);

/* True when the tags are equal, in a time that does not depend on where they differ. */
int ccl_mac_equal(uint64_t a, uint64_t b);

#endif
