/* Doorbells over futexes. Ring and prepare are the two halves of one store-buffer pattern: the
 * ringer stores its flag, fences, reads `sleepers`; the sleeper adds to `sleepers`, fences, reads
 * the flags. At least one of them sees the other. A fence on each flag would wait for the flag's
 * cache line, so the rare sleeper executes it for the ringers, where the system can (membarrier,
 * of which all processes take part that registered). */
#define _GNU_SOURCE
#include "base/doorbell.h"

#include "base/err.h"
#include "base/fault.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096 };

static struct ccl_bell fallback_bell;
static struct ccl_bell *_Atomic self_bell; /* NULL before the first use */
static int self_fd = -1;
static pthread_once_t self_once = PTHREAD_ONCE_INIT;

static int is_registered;

static long membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

static void set_self(struct ccl_bell *bell)
{
    bell->does_barrier = (uint32_t)is_registered;
    atomic_store_explicit(&self_bell, bell, memory_order_release);
}

static void make_self(void)
{
    is_registered = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
    int fd = CCL_FAULT("bell-memfd") ? -1 : memfd_create("chorus-bell", MFD_CLOEXEC);
    void *page = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, PAGE_BYTES) == 0)
        page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page != MAP_FAILED) {
        self_fd = fd;
        set_self(page);
        return;
    }
    if (fd >= 0) close(fd);
    set_self(&fallback_bell);
}

struct ccl_bell *ccl_bell_self(void)
{
    /* Acquire pairs with make_self: the bell is set up. */
    struct ccl_bell *bell = atomic_load_explicit(&self_bell, memory_order_acquire);
    if (bell != NULL) return bell;
    pthread_once(&self_once, make_self);
    return atomic_load_explicit(&self_bell, memory_order_relaxed);
}

int ccl_bell_self_fd(void)
{
    pthread_once(&self_once, make_self);
    return self_fd;
}

ncclResult_t ccl_bell_map(int fd, struct ccl_bell **out)
{
    void *page = MAP_FAILED;
    if (CCL_FAULT("bell-map"))
        errno = ENOMEM;
    else
        page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return ccl_err(ncclSystemError, "mmap of a peer's doorbell: %s", strerror(errno));
    *out = page;
    return ncclSuccess;
}

void ccl_bell_unmap(struct ccl_bell *bell)
{
    if (bell != NULL) munmap(bell, PAGE_BYTES);
}

static long futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
    return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

void ccl_bell_ring(struct ccl_bell *bell)
{
    if (is_registered && bell->does_barrier)
        atomic_signal_fence(memory_order_seq_cst);
    else
        atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&bell->sleepers, memory_order_relaxed) == 0) return;
    atomic_fetch_add_explicit(&bell->rings, 1, memory_order_relaxed);
    futex(&bell->rings, FUTEX_WAKE, INT_MAX, NULL);
}

uint32_t ccl_bell_prepare(struct ccl_bell *bell)
{
    uint32_t seen = atomic_load_explicit(&bell->rings, memory_order_relaxed);
    atomic_fetch_add_explicit(&bell->sleepers, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    if (bell->does_barrier) membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
    return seen;
}

void ccl_bell_cancel(struct ccl_bell *bell)
{
    atomic_fetch_sub_explicit(&bell->sleepers, 1, memory_order_relaxed);
}

void ccl_bell_sleep(struct ccl_bell *bell, uint32_t seen, uint32_t timeout_us)
{
    struct timespec timeout = {.tv_sec = timeout_us / 1000000u,
                               .tv_nsec = (long)(timeout_us % 1000000u) * 1000};
    futex(&bell->rings, FUTEX_WAIT, seen, &timeout);
    ccl_bell_cancel(bell);
}
