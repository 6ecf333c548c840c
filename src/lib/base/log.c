/* The log: levels and subsystems from NCCL_DEBUG and its like, one write per line so that lines of
 * ranks and threads never mix. A word that means nothing is named in a line of its own. */
#include "base/log.h"

#include "base/param.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 2048, STAMP_BYTES = 128 };

/* Bit i of a mask: the i-th name. */
struct names {
    const char *const *names;
    int n;
};
static const char *const level_names[] = {"NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE"};
static const char *const subsys_names[] = {
    "INIT", "COLL",  "P2P",  "SHM",       "NET", "GRAPH",   "TUNING", "ENV",     "ALLOC",
    "CALL", "PROXY", "NVLS", "BOOTSTRAP", "REG", "PROFILE", "RAS",    "DESTROY", "ALLOC_HOST"};
static const struct names levels = {level_names, sizeof level_names / sizeof level_names[0]};
static const struct names subsystems = {subsys_names, sizeof subsys_names / sizeof subsys_names[0]};

uint32_t ccl_log_bits = ~0u;
static int log_level;
static uint32_t log_mask, stamp_mask;
static const char *stamp_format;
static int log_fd = STDERR_FILENO;
static char host_name[64];
static pthread_once_t log_once = PTHREAD_ONCE_INIT;

/* ---- lines ---- */

/* Replaces %1f to %9f by that many digits of the second, which strftime does not know. */
static void put_fractions(const char *format, long nanoseconds, char *out, size_t bytes)
{
    char digits[16];
    size_t used = 0;
    snprintf(digits, sizeof digits, "%09ld", nanoseconds);
    for (const char *at = format; *at != '\0' && used + 10 < bytes; at++) {
        if (at[0] == '%' && at[1] >= '1' && at[1] <= '9' && at[2] == 'f') {
            size_t n = (size_t)(at[1] - '0');
            memcpy(out + used, digits, n);
            used += n;
            at += 2;
            continue;
        }
        out[used++] = *at;
        if (at[0] == '%' && at[1] != '\0') out[used++] = *++at;
    }
    out[used] = '\0';
}

static size_t put_stamp(enum ccl_log_level level, char *line)
{
    char format[STAMP_BYTES];
    struct timespec now;
    struct tm local;
    if ((stamp_mask >> level & 1) == 0) return 0;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    put_fractions(stamp_format, now.tv_nsec, format, sizeof format);
    size_t used = strftime(line, STAMP_BYTES, format, &local);
    if (used > 0) line[used++] = ' ';
    return used;
}

static void write_line(enum ccl_log_level level, const char *format, va_list args)
{
    char line[LINE_BYTES];
    size_t used = put_stamp(level, line);
    used += (size_t)snprintf(line + used, sizeof line - used, "%s:%d:%ld CHORUS %s ", host_name,
                             (int)getpid(), (long)syscall(SYS_gettid), level_names[level]);
    int wrote = vsnprintf(line + used, sizeof line - used - 1, format, args);
    size_t length = used + (size_t)(wrote < 0 ? 0 : wrote);
    if (length > sizeof line - 2) length = sizeof line - 2;
    line[length++] = '\n';
    ssize_t ignored = write(log_fd, line, length);
    (void)ignored;
}

/* About the variables themselves, while they are read. */
__attribute__((format(printf, 1, 2))) static void complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(CCL_LOG_WARN, format, args);
    va_end(args);
}

/* ---- variables ---- */

static int find_name(const struct names *names, const char *word, size_t length)
{
    for (int i = 0; i < names->n; i++)
        if (strlen(names->names[i]) == length && strncasecmp(word, names->names[i], length) == 0)
            return i;
    return -1;
}

/* A list of names, or ALL. */
static uint32_t parse_list(const struct names *names, enum ccl_param param, const char *variable)
{
    const char *text = ccl_param_text(param);
    int inverts = text[0] == '^';
    uint32_t mask = 0;
    for (const char *word = text + inverts; *word != '\0';) {
        size_t length = strcspn(word, ",");
        int i = find_name(names, word, length);
        if (i >= 0)
            mask |= 1u << i;
        else if (length == 3 && strncasecmp(word, "ALL", 3) == 0)
            mask = ~0u;
        else if (log_level >= CCL_LOG_WARN)
            complain("%s: '%.*s' is unknown", variable, (int)length, word);
        word += length;
        if (*word == ',') word++;
    }
    return inverts ? ~mask : mask;
}

static int parse_level(void)
{
    const char *text = ccl_param_text(CCL_PARAM_DEBUG);
    if (text == NULL) return CCL_LOG_NONE;
    int level = find_name(&levels, text, strlen(text));
    if (level >= 0) return level;
    complain("NCCL_DEBUG=%s is none of VERSION, WARN, INFO, ABORT, TRACE: nothing is logged", text);
    return CCL_LOG_NONE;
}

/* Expands %h (host), %p (process) and %% in NCCL_DEBUG_FILE. */
static void expand_path(const char *pattern, char *path, size_t bytes)
{
    size_t used = 0;
    path[0] = '\0';
    for (const char *at = pattern; *at != '\0' && used + 1 < bytes; at++) {
        int wrote = 0;
        if (at[0] == '%' && at[1] == 'h')
            wrote = snprintf(path + used, bytes - used, "%s", host_name);
        else if (at[0] == '%' && at[1] == 'p')
            wrote = snprintf(path + used, bytes - used, "%d", (int)getpid());
        else
            wrote = snprintf(path + used, bytes - used, "%c", at[0]);
        if (at[0] == '%' && (at[1] == 'h' || at[1] == 'p' || at[1] == '%')) at++;
        used += (size_t)wrote;
    }
}

static void open_file(void)
{
    const char *pattern = ccl_param_text(CCL_PARAM_DEBUG_FILE);
    if (log_level == CCL_LOG_NONE || pattern == NULL) return;
    char path[4096];
    expand_path(pattern, path, sizeof path);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd >= 0)
        log_fd = fd;
    else if (log_level >= CCL_LOG_WARN)
        complain("NCCL_DEBUG_FILE=%s: %s; the log goes to stderr", path, strerror(errno));
}

static void open_log(void)
{
    int before = errno;
    gethostname(host_name, sizeof host_name - 1);
    log_level = parse_level();
    open_file();
    stamp_format = ccl_param_text(CCL_PARAM_DEBUG_TIMESTAMP_FORMAT);
    stamp_mask =
        parse_list(&levels, CCL_PARAM_DEBUG_TIMESTAMP_LEVELS, "NCCL_DEBUG_TIMESTAMP_LEVELS");
    log_mask = parse_list(&subsystems, CCL_PARAM_DEBUG_SUBSYS, "NCCL_DEBUG_SUBSYS");
    __atomic_store_n(&ccl_log_bits, log_level >= CCL_LOG_INFO ? log_mask : 0, __ATOMIC_RELAXED);
    errno = before;
}

int ccl_log_wanted(enum ccl_log_level level, int subsys)
{
    pthread_once(&log_once, open_log);
    if ((int)level > log_level) return 0;
    return level <= CCL_LOG_WARN || ((uint32_t)subsys & log_mask) != 0;
}

void ccl_log(enum ccl_log_level level, int subsys, const char *format, ...)
{
    if (!ccl_log_wanted(level, subsys)) return;
    va_list args;
    va_start(args, format);
    write_line(level, format, args);
    va_end(args);
}
