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

static struct ccl_bell private_bell; /* while there is no page that peers can map */
static struct ccl_bell *_Atomic self_bell;
static int self_fd = -1; /* guarded by self_lock */
static pthread_mutex_t self_lock = PTHREAD_MUTEX_INITIALIZER;

static _Atomic int is_registered; /* this process takes part in membarriers */

static long membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

static struct ccl_bell *map_page(int *out)
{
    int fd = CCL_FAULT("bell-memfd") ? -1 : memfd_create("chorus-bell", MFD_CLOEXEC);
    if (fd < 0) return NULL;
    void *page = MAP_FAILED;
    if (ftruncate(fd, PAGE_BYTES) == 0)
        page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        close(fd);
        return NULL;
    }
    *out = fd;
    return page;
}

static void wake_all(struct ccl_bell *bell)
{
    atomic_fetch_add_explicit(&bell->rings, 1, memory_order_relaxed);
    syscall(SYS_futex, &bell->rings, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Who sleeps on the private bell while it is replaced wakes up, and sleeps on the new one next. A
 * sleeper that took the old bell but has not announced itself wakes up at its timeout. */
static int make_self(void)
{
    pthread_mutex_lock(&self_lock);
    if (self_fd < 0) {
        struct ccl_bell *page = map_page(&self_fd);
        int can = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
        atomic_store_explicit(&is_registered, can, memory_order_relaxed);
        struct ccl_bell *bell = page != NULL ? page : &private_bell;
        if (bell != atomic_load_explicit(&self_bell, memory_order_relaxed))
            atomic_store_explicit(&bell->does_barrier, (uint32_t)can, memory_order_relaxed);
        /* Release publishes a page of zeros but for that. */
        atomic_store_explicit(&self_bell, bell, memory_order_release);
        if (page != NULL) wake_all(&private_bell);
    }
    int fd = self_fd;
    pthread_mutex_unlock(&self_lock);
    return fd;
}

struct ccl_bell *ccl_bell_self(void)
{
    struct ccl_bell *bell = atomic_load_explicit(&self_bell, memory_order_acquire);
    if (bell != NULL) return bell;
    make_self();
    return atomic_load_explicit(&self_bell, memory_order_acquire);
}

int ccl_bell_self_fd(void)
{
    return make_self();
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

void ccl_bell_ring(struct ccl_bell *bell)
{
    if (atomic_load_explicit(&bell->does_barrier, memory_order_relaxed) &&
        atomic_load_explicit(&is_registered, memory_order_relaxed))
        atomic_signal_fence(memory_order_seq_cst);
    else
        atomic_thread_fence(memory_order_seq_cst);
    if (bell == &private_bell) bell = ccl_bell_self(); /* it may have been replaced */
    if (atomic_load_explicit(&bell->sleepers, memory_order_relaxed) != 0) wake_all(bell);
}

uint32_t ccl_bell_prepare(struct ccl_bell *bell)
{
    uint32_t seen = atomic_load_explicit(&bell->rings, memory_order_relaxed);
    atomic_fetch_add_explicit(&bell->sleepers, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&bell->does_barrier, memory_order_relaxed) &&
        membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0)
        atomic_store_explicit(&bell->does_barrier, 0, memory_order_relaxed);
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
    syscall(SYS_futex, &bell->rings, FUTEX_WAIT, seen, &timeout, NULL, 0);
    ccl_bell_cancel(bell);
}
