/* The log: levels and subsystems from NCCL_DEBUG and NCCL_DEBUG_SUBSYS, one write per line so
 * that lines of ranks and threads never mix. */
#include "base/log.h"

#include "base/param.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const level_names[] = {"NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE"};
static const char *const subsys_names[] = {
    "INIT", "COLL",  "P2P",  "SHM",       "NET", "GRAPH",   "TUNING", "ENV",    "ALLOC",
    "CALL", "PROXY", "NVLS", "BOOTSTRAP", "REG", "PROFILE", "RAS",    "DESTROY"};
enum {
    NLEVELS = sizeof level_names / sizeof level_names[0],
    NSUBSYS = sizeof subsys_names / sizeof subsys_names[0]
};

static int log_level;
static int log_mask;
static int log_fd = STDERR_FILENO;
static char host_name[64];
static pthread_once_t log_once = PTHREAD_ONCE_INIT;

static int parse_level(const char *text)
{
    if (text == NULL) return CCL_LOG_NONE;
    for (int i = 0; i < NLEVELS; i++)
        if (strcasecmp(text, level_names[i]) == 0) return i;
    return CCL_LOG_NONE;
}

static int subsys_bit(const char *word, size_t length)
{
    if (length == 3 && strncasecmp(word, "ALL", 3) == 0) return CCL_LOG_ALL;
    for (int i = 0; i < NSUBSYS; i++)
        if (strlen(subsys_names[i]) == length && strncasecmp(word, subsys_names[i], length) == 0)
            return 1 << i;
    return 0;
}

static int parse_subsys(const char *text)
{
    int invert = text[0] == '^';
    int mask = 0;
    for (const char *word = text + invert; *word != '\0';) {
        size_t length = strcspn(word, ",");
        mask |= subsys_bit(word, length);
        word += length;
        if (*word == ',') word++;
    }
    return invert ? ~mask : mask;
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

static void open_log(void)
{
    gethostname(host_name, sizeof host_name - 1);
    log_level = parse_level(ccl_param_text(CCL_PARAM_DEBUG));
    log_mask = parse_subsys(ccl_param_text(CCL_PARAM_DEBUG_SUBSYS));
    const char *pattern = ccl_param_text(CCL_PARAM_DEBUG_FILE);
    if (log_level == CCL_LOG_NONE || pattern == NULL) return;
    char path[4096];
    expand_path(pattern, path, sizeof path);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd >= 0) log_fd = fd;
}

int ccl_log_on(enum ccl_log_level level, int subsys)
{
    pthread_once(&log_once, open_log);
    if ((int)level > log_level) return 0;
    return level <= CCL_LOG_WARN || (subsys & log_mask) != 0;
}

void ccl_log(enum ccl_log_level level, int subsys, const char *format, ...)
{
    if (!ccl_log_on(level, subsys)) return;
    char line[2048];
    int used = snprintf(line, sizeof line, "%s:%d:%ld CHORUS %s ", host_name, (int)getpid(),
                        (long)syscall(SYS_gettid), level_names[level]);
    va_list args;
    va_start(args, format);
    int wrote = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
    va_end(args);
    size_t length = (size_t)used + (size_t)(wrote < 0 ? 0 : wrote);
    if (length > sizeof line - 2) length = sizeof line - 2;
    line[length++] = '\n';
    ssize_t ignored = write(log_fd, line, length);
    (void)ignored;
}
