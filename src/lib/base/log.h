/* Logging: NCCL_DEBUG levels and subsystems, written to stderr or NCCL_DEBUG_FILE, with a time
 * before lines of the levels that NCCL_DEBUG_TIMESTAMP_LEVELS names.
 *
 * Results of the drivers own stdout, so unlike upstream the default sink is stderr. A line that is
 * not wanted costs a load and a branch.
 */
#ifndef CCL_BASE_LOG_H
#define CCL_BASE_LOG_H

#include <stdint.h>

enum ccl_log_level {
    CCL_LOG_NONE,
    CCL_LOG_VERSION,
    CCL_LOG_WARN,
    CCL_LOG_INFO,
    CCL_LOG_ABORT,
    CCL_LOG_TRACE
};

/* Subsystem bits, in the order of their names in NCCL_DEBUG_SUBSYS. */
enum ccl_log_subsys {
    CCL_LOG_INIT = 1 << 0,
    CCL_LOG_COLL = 1 << 1,
    CCL_LOG_P2P = 1 << 2,
    CCL_LOG_SHM = 1 << 3,
    CCL_LOG_NET = 1 << 4,
    CCL_LOG_GRAPH = 1 << 5,
    CCL_LOG_TUNING = 1 << 6,
    CCL_LOG_ENV = 1 << 7,
    CCL_LOG_ALLOC = 1 << 8,
    CCL_LOG_CALL = 1 << 9,
    CCL_LOG_PROXY = 1 << 10,
    CCL_LOG_NVLS = 1 << 11,
    CCL_LOG_BOOTSTRAP = 1 << 12,
    CCL_LOG_REG = 1 << 13,
    CCL_LOG_PROFILE = 1 << 14,
    CCL_LOG_RAS = 1 << 15,
    CCL_LOG_DESTROY = 1 << 16,
    CCL_LOG_ALLOC_HOST = 1 << 17,
    CCL_LOG_ALL = ~0
};

/* Writes one line when the level and a subsystem bit are on. Thread-safe; one write per line. */
void ccl_log(enum ccl_log_level level, int subsys, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same question after the variables have been read, for any level. */
int ccl_log_wanted(enum ccl_log_level level, int subsys);

/* Subsystems whose lines of level INFO are wanted; all bits before the variables are read. */
extern uint32_t ccl_log_bits;

/* True when a line of INFO would be written; guards costly arguments. Relaxed: a thread that reads
 * the bits of before asks again. */
static inline int ccl_log_on(int subsys)
{
    uint32_t bits = __atomic_load_n(&ccl_log_bits, __ATOMIC_RELAXED);
    return (bits & (uint32_t)subsys) != 0 && ccl_log_wanted(CCL_LOG_INFO, subsys);
}

#define CCL_INFO(subsys, ...)                                                                      \
    do {                                                                                           \
        if (ccl_log_on(subsys)) ccl_log(CCL_LOG_INFO, (subsys), __VA_ARGS__);                      \
    } while (0)

#endif
