/* Runs the cases of a test program one by one and prints TAP. A case ends by returning or by a
 * jump from its first failing check. A case that hangs or crashes ends the process; the handler
 * prints the stacks and starts the program again at the next case, so every case gets its line.
 */
#define _GNU_SOURCE
#include "unit/test.h"

#include "unit/leftover.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { DEFAULT_TIMEOUT_S = 60, MAX_ONLY = 16, NAP_MS_MAX = 64 };
enum outcome { PASSED, FAILED, SKIPPED };

void (*test_settle)(void);
void (*test_prepare)(void);
void (*test_ended)(const struct test_case *test, int passed);
unsigned test_settle_limit_ms = 2000;

/* What the options chose, and what the handlers need to go on in a new process. */
static struct {
    const struct test_case *cases;
    size_t ncases, planned, first, nonly;
    const char *only[MAX_ONLY];
    int list, fork_each;
    int nfailed;
    char **argv;
} plan;

/* The case that runs. */
static struct {
    const struct test_case *test;
    size_t index, number; /* in the table; in the TAP output, from 1 */
    sigjmp_buf end;
    pid_t pid;
    pthread_t thread;
    _Atomic int failed; /* set by any thread of the case, read after it has joined them */
    int skipped;
    char why[256];
} running;

/* What the process had before test_prepare. */
static struct test_snapshot inherited;

static char stack_command[256];

/* ---- checks ---- */

static void print_text(const char *format, va_list args)
{
    char text[1600];
    int used = snprintf(text, sizeof text, "# ");
    vsnprintf(text + used, sizeof text - (size_t)used - 1, format, args);
    strcat(text, "\n");
    fputs(text, getpid() == running.pid ? stdout : stderr);
}

void test_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_text(format, args);
    va_end(args);
}

static void end_case(void) __attribute__((noreturn));

static void end_case(void)
{
    if (running.pid != getpid()) _exit(99);
    if (!pthread_equal(running.thread, pthread_self())) pthread_exit(NULL);
    siglongjmp(running.end, 1);
}

void test_fail(struct test_at at, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    atomic_store_explicit(&running.failed, 1, memory_order_relaxed);
    test_note("%s:%d: %s: %s", at.file, at.line, at.text, text);
    end_case();
}

void test_skip(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(running.why, sizeof running.why, format, args);
    va_end(args);
    running.skipped = 1;
    end_case();
}

void test_check_eq(struct test_at at, long long a, long long b)
{
    if (a != b) test_fail(at, "%lld != %lld (0x%llx, 0x%llx)", a, b, a, b);
}

void test_check_near(struct test_at at, double a, double b, double slack)
{
    if (!(a - b <= slack && b - a <= slack)) test_fail(at, "%.17g, %.17g (+-%g)", a, b, slack);
}

void test_check_str(struct test_at at, const char *a, const char *b)
{
    if (a == b) return;
    if (a == NULL || b == NULL || strcmp(a, b) != 0)
        test_fail(at, "'%.400s' != '%.400s'", a == NULL ? "(null)" : a, b == NULL ? "(null)" : b);
}

void test_check_has(struct test_at at, const char *whole, const char *part)
{
    if (whole == NULL || strstr(whole, part) == NULL)
        test_fail(at, "no '%.300s' in '%.600s'", part, whole == NULL ? "(null)" : whole);
}

void test_check_mem(struct test_at at, const void *a, const void *b, size_t bytes)
{
    const unsigned char *left = a, *right = b;
    for (size_t i = 0; i < bytes; i++)
        if (left[i] != right[i])
            test_fail(at, "byte %zu of %zu: 0x%02x != 0x%02x", i, bytes, left[i], right[i]);
}

/* Weak, because not every test program is linked with the library. */
const char *ncclGetLastError(void *comm) __attribute__((weak));
const char *ccl_err_last(void) __attribute__((weak));

void test_check_ok(struct test_at at, int code)
{
    if (code == 0) return;
    const char *text = "no text";
    if (ccl_err_last != NULL)
        text = ccl_err_last();
    else if (ncclGetLastError != NULL)
        text = ncclGetLastError(NULL);
    test_fail(at, "result %d: %s", code, text);
}

/* ---- a case that hangs or crashes ---- */

static void write_all(const char *text)
{
    ssize_t ignored = write(STDOUT_FILENO, text, strlen(text));
    (void)ignored;
}

/* Only async-signal-safe calls: the raw clone runs no fork handlers, which could wait for a
 * lock that the interrupted thread holds. */
static void print_stacks(void)
{
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        char *const argv[] = {"sh", "-c", stack_command, NULL};
        execv("/bin/sh", argv);
        _exit(127);
    }
    if (child > 0) waitpid(child, NULL, 0);
}

static void write_number(size_t number)
{
    char digits[24];
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    write_all(digits + at);
}

static void format_number(char *text, const char *prefix, size_t number)
{
    size_t at = strlen(prefix), width = 10;
    memcpy(text, prefix, at + 1);
    for (size_t i = width; i-- > 0; number /= 10) text[at + i] = (char)('0' + number % 10);
    text[at + width] = '\0';
}

static void on_signal(int signal_number)
{
    if (running.pid != getpid()) _exit(128 + signal_number);
    int hung = signal_number == SIGALRM;
    write_all(hung ? "# no end within the time limit of case " : "# killed by a signal in case ");
    write_all(running.test->name);
    write_all("\n");
    print_stacks();
    write_all("not ok ");
    write_number(running.number);
    write_all(" - ");
    write_all(running.test->name);
    write_all(hung ? ": timed out\n" : ": signal ");
    if (!hung) write_number((size_t)signal_number);
    if (!hung) write_all("\n");
    if (plan.fork_each) _exit(1);
    static char first[40], failed[40];
    format_number(first, "--from=", running.index + 1);
    format_number(failed, "--failed=", (size_t)plan.nfailed + 1);
    static char *argv[2 * MAX_ONLY + 8];
    int argc = 0;
    argv[argc++] = plan.argv[0];
    for (size_t i = 0; i < plan.nonly; i++) {
        argv[argc++] = "--only";
        argv[argc++] = (char *)(size_t)plan.only[i];
    }
    argv[argc++] = first;
    argv[argc++] = failed;
    argv[argc] = NULL;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execv("/proc/self/exe", argv);
    _exit(1);
}

static void install_handlers(void)
{
    static char stack[65536];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alternate, NULL);
    snprintf(stack_command, sizeof stack_command,
             "command -v gdb >/dev/null && timeout 30 gdb -nx -batch -p %d "
             "-ex 'thread apply all bt 24' 2>&1 | grep '^Thread\\|^#' | head -200 | sed 's/^/# /'",
             (int)getpid());
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigfillset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGABRT, &action, NULL);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGFPE, &action, NULL);
    sigaction(SIGILL, &action, NULL);
#endif
}

/* ---- running ---- */

static void print_leftover(const char *what, const char *line)
{
    test_note("%s: %s", what, line);
}

/* True when the case left something. What ends by itself (a joined thread that the kernel has
 * not yet unlisted, a thread that finishes after its last message) is given some time. */
static int has_leftovers(const struct test_snapshot *before)
{
    struct test_snapshot after;
    /* A thread of test_prepare or of a failed case that still runs may close what it owns. */
    int is_calm = test_snapshot_threads(before) <= test_snapshot_threads(&inherited);
    const struct test_snapshot *lasting = is_calm ? NULL : &inherited;
    for (unsigned nap_ms = 1, waited_ms = 0;; waited_ms += nap_ms) {
        test_snapshot_take(&after);
        if (test_snapshot_diff(before, &after, lasting, NULL) == 0) break;
        if (waited_ms >= test_settle_limit_ms) break;
        test_snapshot_free(&after);
        if (nap_ms < NAP_MS_MAX) nap_ms *= 2;
        nanosleep(&(struct timespec){.tv_nsec = (long)nap_ms * 1000000}, NULL);
    }
    size_t found = test_snapshot_diff(before, &after, lasting, print_leftover);
    test_snapshot_free(&after);
    return found != 0;
}

static void enter_case(void)
{
    if (sigsetjmp(running.end, 0) == 0) running.test->run();
}

static unsigned default_timeout_s(void)
{
    const char *text = getenv("TEST_DEFAULT_S");
    return text == NULL ? DEFAULT_TIMEOUT_S : (unsigned)atoi(text);
}

static enum outcome run_case(size_t index, size_t number)
{
    struct test_snapshot before;
    running.test = &plan.cases[index];
    running.index = index;
    running.number = number;
    running.pid = getpid();
    running.thread = pthread_self();
    running.skipped = 0;
    atomic_store_explicit(&running.failed, 0, memory_order_relaxed);
    unsigned timeout_s = running.test->timeout_s;
    alarm(timeout_s == 0 ? default_timeout_s() : timeout_s);
    if (test_settle != NULL) test_settle();
    test_snapshot_take(&before);
    enter_case();
    if (test_settle != NULL) test_settle();
    int left = has_leftovers(&before);
    alarm(0);
    test_snapshot_free(&before);
    if (left) test_kill_children();
    int failed = left || atomic_load_explicit(&running.failed, memory_order_relaxed);
    printf("%sok %zu - %s", failed ? "not " : "", number, running.test->name);
    if (!failed && running.skipped) printf(" # SKIP %s", running.why);
    putchar('\n');
    fflush(stdout);
    return failed ? FAILED : running.skipped ? SKIPPED : PASSED;
}

static void *end_at_once(void *unused)
{
    return unused;
}

/* A sanitizer starts a thread for itself together with the first one of the program. */
static void start_first_thread(void)
{
    pthread_t first;
    if (pthread_create(&first, NULL, end_at_once, NULL) == 0) pthread_join(first, NULL);
}

/* Makes what lives as long as the process. */
static void prepare_process(void)
{
    start_first_thread();
    test_snapshot_take(&inherited);
    if (test_prepare != NULL) test_prepare();
}

/* The same in a process of its own; the line is printed there unless it died. */
static enum outcome run_case_forked(size_t index, size_t number)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        install_handlers();
        prepare_process();
        exit(run_case(index, number) == FAILED);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        printf("not ok %zu - %s: signal %d\n", number, plan.cases[index].name, WTERMSIG(status));
    return status == 0 ? PASSED : FAILED;
}

static int is_chosen(const struct test_case *test)
{
    if (strncmp(test->name, "child:", 6) == 0) return 0;
    if (plan.nonly == 0) return 1;
    for (size_t i = 0; i < plan.nonly; i++)
        if (strstr(test->name, plan.only[i]) != NULL) return 1;
    return 0;
}

/* A case for another process: no TAP, the checks end the process. */
static int run_child(const char *name)
{
    for (size_t i = 0; i < plan.ncases; i++) {
        if (strcmp(plan.cases[i].name, name) != 0) continue;
        running.test = &plan.cases[i];
        start_first_thread();
        plan.cases[i].run();
        return 0;
    }
    fprintf(stderr, "no case %s\n", name);
    return 98;
}

static int parse_arguments(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--list") == 0)
            plan.list = 1;
        else if (strcmp(argv[i], "--fork") == 0)
            plan.fork_each = 1;
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc && plan.nonly < MAX_ONLY)
            plan.only[plan.nonly++] = argv[++i];
        else if (strncmp(argv[i], "--from=", 7) == 0)
            plan.first = strtoul(argv[i] + 7, NULL, 10);
        else if (strncmp(argv[i], "--failed=", 9) == 0)
            plan.nfailed = atoi(argv[i] + 9);
        else {
            fprintf(stderr, "usage: %s [--list] [--fork] [--only PART-OF-NAME]...\n", argv[0]);
            return 2;
        }
    }
    return 0;
}

int test_main(int argc, char **argv, const struct test_case *cases, size_t ncases)
{
    plan.cases = cases;
    plan.ncases = ncases;
    plan.argv = argv;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 3 && strcmp(argv[1], "--child") == 0) return run_child(argv[2]);
    if (parse_arguments(argc, argv) != 0) return 2;
    for (size_t i = 0; i < ncases; i++) {
        plan.planned += (size_t)is_chosen(&cases[i]);
        if (plan.list && is_chosen(&cases[i])) puts(cases[i].name);
    }
    if (plan.list) return 0;
    if (plan.first == 0)
        printf("1..%zu\n", plan.planned);
    else
        test_kill_children(); /* what the case that hung had started */
    if (!plan.fork_each) {
        install_handlers();
        prepare_process();
    }
    for (size_t i = 0, number = 0; i < ncases; i++) {
        if (!is_chosen(&cases[i]) || ++number == 0 || i < plan.first) continue;
        enum outcome outcome = plan.fork_each ? run_case_forked(i, number) : run_case(i, number);
        plan.nfailed += outcome == FAILED;
        if (test_ended != NULL) test_ended(&cases[i], outcome == PASSED);
    }
    test_snapshot_free(&inherited);
    return plan.nfailed != 0;
}
