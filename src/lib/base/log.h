/* Logging: NCCL_DEBUG levels and subsystems, written to stderr or NCCL_DEBUG_FILE.
 *
 * Results of the drivers own stdout, so unlike upstream the default sink is stderr.
 */
#ifndef CCL_BASE_LOG_H
#define CCL_BASE_LOG_H

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
    CCL_LOG_ALL = ~0
};

/* Writes one line when the level and a subsystem bit are on. Thread-safe; one write per line. */
void ccl_log(enum ccl_log_level level, int subsys, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* True when such a line would be written; guards costly arguments. */
int ccl_log_on(enum ccl_log_level level, int subsys);

#define CCL_INFO(subsys, ...)                                                                      \
    do {                                                                                           \
        if (ccl_log_on(CCL_LOG_INFO, (subsys))) ccl_log(CCL_LOG_INFO, (subsys), __VA_ARGS__);      \
    } while (0)

#endif
