/* A listening socket and those who knock: authenticates connections without ever waiting for one.
 *
 * Each guest gets a challenge and has 5 seconds to answer with a hello that only a holder of the
 * secret can make. At most 256 guests wait at a time, each in a buffer of one hello; when more
 * come, the oldest goes. Strangers are dropped and logged once a source. Used by the root (TCP)
 * and the mesh (Unix sockets) from their own poll loops; one thread.
 */
#ifndef CCL_BOOT_DOOR_H
#define CCL_BOOT_DOOR_H

#include "boot/link.h"

#include <poll.h>

enum { CCL_DOOR_GUESTS = 256, CCL_DOOR_POLLS = CCL_DOOR_GUESTS + 1 };

struct ccl_door;

/* A guest who proved to know the secret. The receiver takes link.fd; link is ready to talk. */
struct ccl_arrival {
    struct ccl_link link;
    struct ccl_wire_hello hello;
    union ccl_sock_addr from;
};
typedef void ccl_door_welcome(void *context, const struct ccl_arrival *arrival);

struct ccl_door_args {
    int listen_fd; /* taken over, also on failure */
    const uint8_t *secret;
    unsigned hello_type; /* CCL_WIRE_HELLO or CCL_WIRE_MESH_HELLO */
    int same_user;       /* drop peers of another user (Unix sockets) */
    ccl_door_welcome *welcome;
    void *context;
};
ncclResult_t ccl_door_open(const struct ccl_door_args *args, struct ccl_door **out);

/* Fills at most CCL_DOOR_POLLS entries, returns how many; *timeout_ms is lowered to the next
 * moment at which the door has something to do. */
int ccl_door_polls(struct ccl_door *door, struct pollfd *polls, int *timeout_ms);

/* Does what the entries allow: accepts, reads, drops, hands over arrivals. */
void ccl_door_step(struct ccl_door *door, const struct pollfd *polls);

/* The errno with which connections have been refused for two seconds without a break (out of
 * descriptors or memory), 0 when they are not. */
int ccl_door_starved(const struct ccl_door *door);

/* NULL is fine. Drops all guests. */
void ccl_door_close(struct ccl_door *door);

#endif
