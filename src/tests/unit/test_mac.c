/* Keyed checksums: published vectors of SipHash-2-4, pieces equal to the whole, and that a tag
 * depends on every bit of key and data. */
#include "base/mac.h"
#include "unit/test.h"

#include <stdint.h>
#include <string.h>

static void fill_counting(uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = (uint8_t)i;
}

/* From the paper's appendix (15 bytes) and the published table of its authors. */
static void test_vectors(void)
{
    static const struct {
        size_t size_bytes;
        uint64_t tag;
    } vectors[] = {{0, 0x726fdb47dd0e0e31u},
                   {1, 0x74f839c593dc67fdu},
                   {7, 0xab0200f58b01d137u},
                   {8, 0x93f5f5799a932462u},
                   {15, 0xa129ca6149be45e5u}};
    uint8_t key[CCL_KEY_BYTES], data[16];
    fill_counting(key, sizeof key);
    fill_counting(data, sizeof data);
    for (size_t i = 0; i < TEST_COUNT(vectors); i++)
        CHECK_EQ(ccl_mac(key, data, vectors[i].size_bytes), vectors[i].tag);
}

static void test_pieces(void)
{
    uint8_t key[CCL_KEY_BYTES], data[100];
    fill_counting(key, sizeof key);
    fill_counting(data, sizeof data);
    for (size_t n = 0; n <= sizeof data; n++) {
        for (size_t cut = 0; cut <= n; cut++) {
            struct ccl_mac mac;
            ccl_mac_start(&mac, key);
            ccl_mac_add(&mac, data, cut);
            ccl_mac_add(&mac, data + cut, n - cut);
            CHECK_EQ(ccl_mac_end(&mac), ccl_mac(key, data, n));
        }
    }
}

static void test_every_bit_counts(void)
{
    uint8_t key[CCL_KEY_BYTES], data[64];
    fill_counting(key, sizeof key);
    fill_counting(data, sizeof data);
    uint64_t tag = ccl_mac(key, data, sizeof data);
    for (unsigned bit = 0; bit < 8 * sizeof data; bit++) {
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        CHECK(!ccl_mac_equal(ccl_mac(key, data, sizeof data), tag));
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (unsigned bit = 0; bit < 8 * sizeof key; bit++) {
        key[bit / 8] ^= (uint8_t)(1u << bit % 8);
        CHECK(!ccl_mac_equal(ccl_mac(key, data, sizeof data), tag));
        key[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    CHECK(!ccl_mac_equal(ccl_mac(key, data, sizeof data - 1), tag));
}

static void test_derive(void)
{
    uint8_t key[CCL_KEY_BYTES], a[CCL_KEY_BYTES], b[CCL_KEY_BYTES];
    fill_counting(key, sizeof key);
    ccl_mac_derive(a, key, "one", "x", 1);
    ccl_mac_derive(b, key, "one", "x", 1);
    CHECK_MEM(a, b, sizeof a);
    ccl_mac_derive(b, key, "two", "x", 1);
    CHECK(memcmp(a, b, sizeof a) != 0);
    ccl_mac_derive(b, key, "one", "y", 1);
    CHECK(memcmp(a, b, sizeof a) != 0);
    CHECK(memcmp(a, a + 8, 8) != 0);
    /* The output may be the key. */
    memcpy(b, key, sizeof b);
    ccl_mac_derive(b, b, "one", "x", 1);
    CHECK_MEM(a, b, sizeof a);
}

static const struct test_case cases[] = {
    {"vectors", test_vectors, 0},
    {"pieces equal the whole", test_pieces, 0},
    {"every bit counts", test_every_bit_counts, 0},
    {"derived keys", test_derive, 0},
};

TEST_MAIN(cases)
