/* zone.c: the layout of zones. A zone holds, in this order:
 *     credits of its executor   [receiver][channel][protocol] lines
 *     credits of its ranks      [rank of the executor][receiver][lane] lines
 *     FIFOs to its executor     [sender][channel], those of all protocols side by side
 *     FIFOs to its ranks        [rank of the executor][sender][lane]
 */
#include "transport/zone.h"

static size_t ranks_of(const struct ccl_zone_shape *shape, uint16_t exec)
{
    return (size_t)shape->first_slot[exec + 1] - shape->first_slot[exec];
}

/* Of a rank among those of its executor. */
static size_t place_of(const struct ccl_zone_shape *shape, uint16_t rank)
{
    return (size_t)shape->slot_of[rank] - shape->first_slot[shape->exec_of[rank]];
}

/* FIFOs of all protocols of one channel; `below`: those before a protocol. */
static size_t channel_bytes(const struct ccl_zone_shape *shape, unsigned below)
{
    size_t bytes = 0;
    for (unsigned p = 0; p < below; p++) bytes += shape->fifo_bytes[p];
    return bytes;
}

static size_t exec_credits(const struct ccl_zone_shape *shape)
{
    return (size_t)shape->nexecs * shape->nchannels * CCL_ZONE_PROTOS;
}

/* FIFOs of messages in which the ranks of an executor send, and as many in which they receive. */
static size_t messages_of(const struct ccl_zone_shape *shape, uint16_t exec)
{
    return ranks_of(shape, exec) * shape->nranks * shape->nlanes;
}

static size_t fifos_at(const struct ccl_zone_shape *shape, uint16_t exec)
{
    return (exec_credits(shape) + messages_of(shape, exec)) * CCL_ZONE_LINE_BYTES;
}

static size_t messages_at(const struct ccl_zone_shape *shape, uint16_t exec)
{
    return fifos_at(shape, exec) +
           (size_t)shape->nexecs * shape->nchannels * channel_bytes(shape, CCL_ZONE_PROTOS);
}

size_t ccl_zone_bytes(const struct ccl_zone_shape *shape, uint16_t exec)
{
    return messages_at(shape, exec) + messages_of(shape, exec) * shape->message_bytes;
}

/* Of a FIFO between ranks, among those of the rank at its `own` end. */
static size_t message_index(const struct ccl_zone_shape *shape, uint16_t own, uint16_t other,
                            uint16_t lane)
{
    return (place_of(shape, own) * shape->nranks + other) * shape->nlanes + lane;
}

struct ccl_zone_place ccl_zone_fifo(const struct ccl_zone_shape *shape,
                                    const struct ccl_fifo_id *id, unsigned proto)
{
    uint16_t exec = id->of_ranks ? shape->exec_of[id->receiver] : id->receiver;
    struct ccl_zone_place place = {exec, 0};
    if (id->of_ranks) {
        size_t index = message_index(shape, id->receiver, id->sender, id->channel);
        place.at = messages_at(shape, exec) + index * shape->message_bytes;
        return place;
    }
    size_t index = (size_t)id->sender * shape->nchannels + id->channel;
    place.at = fifos_at(shape, exec) + index * channel_bytes(shape, CCL_ZONE_PROTOS) +
               channel_bytes(shape, proto);
    return place;
}

struct ccl_zone_place ccl_zone_credit(const struct ccl_zone_shape *shape,
                                      const struct ccl_fifo_id *id, unsigned proto)
{
    uint16_t exec = id->of_ranks ? shape->exec_of[id->sender] : id->sender;
    size_t index =
        ((size_t)id->receiver * shape->nchannels + id->channel) * CCL_ZONE_PROTOS + proto;
    if (id->of_ranks)
        index = exec_credits(shape) + message_index(shape, id->sender, id->receiver, id->channel);
    return (struct ccl_zone_place){exec, index * CCL_ZONE_LINE_BYTES};
}
