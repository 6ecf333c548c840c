/* Packing of unique ids into the API's 128 bytes:
 *   0 magic 8 | 8 form u16 | 10 fixed u16 | 12 family u16 (4, 6) | 14 port u16 | 16 address 16
 *   32 scope u32 | 36 pid u32 | 40 secret 16 | 56 host 48 | 104 zero 16 | 120 tag u64 of 0-119
 * The tag, keyed by the secret, tells a damaged or uninitialised id from a good one. */
#include "boot/id.h"

#include "base/err.h"
#include "base/netif.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

enum { ID_BYTES = 128, ID_FORM = 1, TAG_AT = 120 };
_Static_assert(sizeof(ncclUniqueId) == ID_BYTES, "the API fixes the size of an id");

static const char id_magic[8] = {'C', 'h', 'o', 'r', 'u', 's', 'I', 'd'};

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

void ccl_boot_id_pack(const struct ccl_boot_id *id, ncclUniqueId *out)
{
    uint8_t bytes[ID_BYTES] = {0};
    memcpy(bytes, id_magic, sizeof id_magic);
    put(bytes + 8, ID_FORM, 2);
    put(bytes + 10, id->fixed != 0, 2);
    if (id->root.any.sa_family == AF_INET6) {
        put(bytes + 12, 6, 2);
        put(bytes + 14, ntohs(id->root.v6.sin6_port), 2);
        memcpy(bytes + 16, &id->root.v6.sin6_addr, 16);
        put(bytes + 32, id->root.v6.sin6_scope_id, 4);
    } else {
        put(bytes + 12, 4, 2);
        put(bytes + 14, ntohs(id->root.v4.sin_port), 2);
        memcpy(bytes + 16, &id->root.v4.sin_addr, 4);
    }
    put(bytes + 36, id->pid, 4);
    memcpy(bytes + 40, id->secret, CCL_KEY_BYTES);
    memcpy(bytes + 56, id->host, sizeof id->host);
    put(bytes + TAG_AT, ccl_mac(id->secret, bytes, TAG_AT), 8);
    memcpy(out->internal, bytes, sizeof bytes);
}

ncclResult_t ccl_boot_id_unpack(const ncclUniqueId *in, struct ccl_boot_id *id)
{
    uint8_t bytes[ID_BYTES];
    memcpy(bytes, in->internal, sizeof bytes);
    memset(id, 0, sizeof *id);
    if (memcmp(bytes, id_magic, sizeof id_magic) != 0)
        return ccl_err(ncclInvalidArgument, "the unique id was not made by ncclGetUniqueId");
    memcpy(id->secret, bytes + 40, CCL_KEY_BYTES);
    if (!ccl_mac_equal(get(bytes + TAG_AT, 8), ccl_mac(id->secret, bytes, TAG_AT)))
        return ccl_err(ncclInvalidArgument, "the unique id was damaged on its way");
    if (get(bytes + 8, 2) != ID_FORM)
        return ccl_err(ncclInvalidUsage, "the unique id has form %u, this library reads form %d",
                       (unsigned)get(bytes + 8, 2), ID_FORM);
    id->fixed = (int)get(bytes + 10, 2);
    uint16_t port = htons((uint16_t)get(bytes + 14, 2));
    if (get(bytes + 12, 2) == 6) {
        id->root.v6.sin6_family = AF_INET6;
        id->root.v6.sin6_port = port;
        memcpy(&id->root.v6.sin6_addr, bytes + 16, 16);
        id->root.v6.sin6_scope_id = (uint32_t)get(bytes + 32, 4);
    } else {
        id->root.v4.sin_family = AF_INET;
        id->root.v4.sin_port = port;
        memcpy(&id->root.v4.sin_addr, bytes + 16, 4);
    }
    id->pid = (uint32_t)get(bytes + 36, 4);
    memcpy(id->host, bytes + 56, sizeof id->host);
    id->host[sizeof id->host - 1] = '\0';
    return ncclSuccess;
}

ncclResult_t ccl_boot_id_fixed(const char *text, struct ccl_boot_id *id)
{
    static const uint8_t no_secret[CCL_KEY_BYTES];
    memset(id, 0, sizeof *id);
    int code = ccl_sock_parse(text, ccl_netif_family(), &id->root);
    if (code == EINVAL)
        return ccl_err(ncclInvalidUsage, "NCCL_COMM_ID=%s is not host:port or [address]:port",
                       text);
    if (code != 0) return ccl_err(ncclInvalidUsage, "NCCL_COMM_ID=%s: the host is not known", text);
    id->fixed = 1;
    ccl_mac_derive(id->secret, no_secret, "NCCL_COMM_ID", text, strlen(text));
    return ncclSuccess;
}
