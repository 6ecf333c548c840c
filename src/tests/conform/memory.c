/* ncclMemAlloc and registration: sizes from zero, alignment, contents, counted records. */
#include "conform/world.h"

#include <string.h>

static void memory_holds_what_is_written(void)
{
    static const size_t sizes[] = {1, 255, 4096, 1 << 20, (5 << 20) + 3};
    static char written[64], read_back[64];
    struct world world;
    world_open_bare(&world);
    memset(written, 'w', sizeof written);
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        void *memory = NULL;
        size_t bytes = sizes[i] < sizeof written ? sizes[i] : sizeof written;
        CHECK_OK(ncclMemAlloc(&memory, sizes[i]));
        CHECK(memory != NULL);
        CHECK_EQ((uintptr_t)memory % 256, 0);
        char *tail = (char *)memory + sizes[i] - bytes;
        memset(read_back, 0, sizeof read_back);
        CHECK_OK(chorus_devices()->copy(tail, written, bytes, world.stream[0]));
        CHECK_OK(chorus_devices()->copy(read_back, tail, bytes, world.stream[0]));
        world_sync(&world);
        CHECK_MEM(read_back, written, bytes);
        CHECK_OK(ncclMemFree(memory));
    }
    world_close(&world);
}

static void memory_of_no_bytes(void)
{
    void *memory = &memory;
    CHECK_OK(ncclMemAlloc(&memory, 0));
    CHECK(memory != &memory);
    CHECK_OK(ncclMemFree(memory));
}

static void nothing_is_freed(void)
{
    CHECK_OK(ncclGroupStart());
    CHECK_OK(ncclMemFree(NULL));
    CHECK_OK(ncclGroupEnd());
    CHECK_OK(ncclMemFree(NULL));
}

static void memory_too_large_is_refused(void)
{
    void *memory = &memory;
    CHECK(ncclMemAlloc(&memory, SIZE_MAX / 2) != ncclSuccess);
    CHECK_EQ(memory, NULL);
    CHECK_HAS(ncclGetLastError(NULL), "9223372036854775807");
}

static void registration_is_counted(void)
{
    struct world world;
    void *whole = NULL, *part = NULL;
    world_open(&world);
    char *buffer = (char *)world.in[0];
    CHECK_OK(ncclCommRegister(world.comm[0], buffer, 4096, &whole));
    CHECK_OK(ncclCommRegister(world.comm[0], buffer + 128, 256, &part));
    CHECK(whole != NULL);
    CHECK_EQ(whole, part);
    CHECK_OK(ncclCommDeregister(world.comm[0], whole));
    CHECK_OK(ncclCommDeregister(world.comm[0], part));
    CHECK_EQ(ncclCommDeregister(world.comm[0], part), ncclInvalidUsage);
    CHECK_OK(ncclCommDeregister(world.comm[0], NULL));
    world_works(&world);
    world_close(&world);
}

static void registered_buffers_work(void)
{
    struct world world;
    void *handles[2 * NRANKS];
    world_open(&world);
    for (int i = 0; i < NRANKS; i++) {
        size_t bytes = NRANKS * NELEMS * sizeof(int32_t);
        CHECK_OK(ncclCommRegister(world.comm[i], world.in[i], bytes, &handles[2 * i]));
        CHECK_OK(ncclCommRegister(world.comm[i], world.out[i], bytes, &handles[2 * i + 1]));
    }
    world_works(&world);
    for (int i = 0; i < 2 * NRANKS; i++)
        CHECK_OK(ncclCommDeregister(world.comm[i / 2], handles[i]));
    world_works(&world);
    world_close(&world);
}

/* What a program forgets to deregister goes with its communicator. */
static void destroy_drops_registrations(void)
{
    struct world world;
    void *handle;
    world_open(&world);
    CHECK_OK(ncclCommRegister(world.comm[1], world.in[1], 64, &handle));
    world_close(&world);
}

static const struct test_case cases[] = {
    {"memory: ncclMemAlloc holds what is written", memory_holds_what_is_written, 0},
    {"memory: ncclMemAlloc, ncclMemFree of no bytes", memory_of_no_bytes, 0},
    {"memory: ncclMemFree of NULL", nothing_is_freed, 0},
    {"memory: ncclMemAlloc of too much is refused", memory_too_large_is_refused, 0},
    {"memory: registration is counted", registration_is_counted, 0},
    {"memory: registered buffers work", registered_buffers_work, 0},
    {"memory: destroy drops registrations", destroy_drops_registrations, 0},
};
const struct case_list memory_cases = {cases, TEST_COUNT(cases)};
