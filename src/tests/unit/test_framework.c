/* Tests of the test framework: planted leaks, hangs, crashes and failing checks, run in another
 * process, must turn red there and be named. Nothing here uses the library.
 * Invariant: a plant that is not noticed makes this program fail.
 */
#define _GNU_SOURCE
#include "unit/leftover.h"
#include "unit/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the plants: run only when TEST_PLANTS is set ---- */

static void leak_fd(void)
{
    CHECK(open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0);
}

static void *sleep_for_ever(void *unused)
{
    for (;;) pause();
    return unused;
}

static void leak_thread(void)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, sleep_for_ever, NULL), 0);
}

static void leak_mapping(void)
{
    int fd = memfd_create("planted", MFD_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQ(ftruncate(fd, 4096), 0);
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(page != MAP_FAILED);
    close(fd);
}

static void leak_shared_anonymous(void)
{
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
}

static void leak_shm_name(void)
{
    int fd = shm_open(getenv("TEST_PLANTS"), O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0);
    close(fd);
}

static void leak_socket(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    int length =
        snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "planted-%d", (int)getpid());
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    CHECK_EQ(bind(fd, (struct sockaddr *)&address, bytes), 0);
}

static void leak_child(void)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) execl("/bin/sleep", "sleep", "100", (char *)NULL);
}

static void close_stdin(void)
{
    close(STDIN_FILENO);
}

static void plant_fail(void)
{
    CHECK_EQ(2 + 2, 5);
}

static void *fail_in_thread(void *unused)
{
    CHECK_STR("left", "right");
    return unused;
}

static void plant_fail_in_thread(void)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, fail_in_thread, NULL), 0);
    pthread_join(thread, NULL);
}

static void plant_fail_in_child(void)
{
    pid_t child = fork();
    int status = 0;
    if (child == 0) FAIL("in a child");
    waitpid(child, &status, 0);
    CHECK_EQ(WEXITSTATUS(status), 0);
}

static void plant_hang(void)
{
    for (;;) pause();
}

static void plant_crash(void)
{
    abort();
}

static void plant_skip(void)
{
    SKIP("no %s here", "moon");
}

static void plant_good(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK_MEM("same", "same", 5);
    CHECK_NEAR(0.1 + 0.2, 0.3, 1e-9);
    CHECK_HAS("abcdef", "cde");
    CHECK_OK(0);
    close(fd);
}

static const struct test_case plants[] = {
    {"leak fd", leak_fd, 0},
    {"leak thread", leak_thread, 0},
    {"leak mapping", leak_mapping, 0},
    {"leak shared anonymous", leak_shared_anonymous, 0},
    {"leak shm name", leak_shm_name, 0},
    {"leak socket", leak_socket, 0},
    {"leak child", leak_child, 0},
    {"close stdin", close_stdin, 0},
    {"fail here", plant_fail, 0},
    {"fail in a thread", plant_fail_in_thread, 0},
    {"fail in a child", plant_fail_in_child, 0},
    {"hang", plant_hang, 1},
    {"crash", plant_crash, 0},
    {"skip", plant_skip, 0},
    {"good", plant_good, 0},
};

/* ---- the tests ---- */

static void run_plants(const char *only, const char *mode, struct test_output *output)
{
    char path[4096], plants_env[64];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    CHECK(length > 0);
    path[length] = '\0';
    snprintf(plants_env, sizeof plants_env, "TEST_PLANTS=/test-plant-%d", (int)getpid());
    const char *const argv[] = {path, "--only", only, mode, NULL};
    const char *const env[] = {plants_env, NULL};
    test_exec(argv, env, 60, output);
    shm_unlink(plants_env + strlen("TEST_PLANTS="));
}

static void expect_red(const char *only, const char *named)
{
    struct test_output output;
    run_plants(only, NULL, &output);
    CHECK_EQ(output.code, 1);
    CHECK_HAS(output.out, "not ok 1 - ");
    CHECK_HAS(output.out, named);
}

static void test_leaked_fd(void)
{
    expect_red("leak fd", "-> /dev/null");
}

static void test_leaked_thread(void)
{
    expect_red("leak thread", "left: thread ");
}

static void test_leaked_mapping(void)
{
    expect_red("leak mapping", "/memfd:planted");
    expect_red("leak shared anonymous", "/dev/zero");
}

static void test_leaked_shm_name(void)
{
    expect_red("leak shm name", "left: shm /dev/shm/test-plant-");
}

static void test_leaked_socket(void)
{
    expect_red("leak socket", "left: socket @planted-");
}

static void test_leaked_child(void)
{
    expect_red("leak child", "(sleep)");
}

static void test_closed_file(void)
{
    expect_red("close stdin", "gone: fd 0 ");
}

static void test_failing_checks(void)
{
    expect_red("fail here", "2 + 2 == 5: 4 != 5");
    expect_red("fail in a thread", "'left' != 'right'");
    expect_red("fail in a child", "99 != 0");
}

static void test_hang_and_crash(void)
{
    struct test_output output;
    run_plants("hang", NULL, &output);
    CHECK_EQ(output.code, 1);
    CHECK_HAS(output.out, "no end within the time limit of case hang");
    CHECK_HAS(output.out, "not ok 1 - hang: timed out");
    run_plants("crash", NULL, &output);
    CHECK_EQ(output.code, 1);
    CHECK_HAS(output.out, "not ok 1 - crash: signal 6");
}

static void test_later_cases_run(void)
{
    struct test_output output;
    run_plants("", NULL, &output);
    CHECK_EQ(output.code, 1);
    CHECK_HAS(output.out, "\nok 14 - skip # SKIP no moon here\n");
    CHECK_HAS(output.out, "\nok 15 - good\n");
    CHECK(strstr(output.out, "not ok 13") != NULL && strstr(output.out, "ok 16") == NULL);
    run_plants("", "--fork", &output);
    CHECK_EQ(output.code, 1);
    CHECK_HAS(output.out, "not ok 12 - hang");
    CHECK_HAS(output.out, "\nok 15 - good\n");
    run_plants("good", NULL, &output);
    CHECK_EQ(output.code, 0);
}

static void child_environment(void)
{
    CHECK_STR(getenv("TEST_WORD"), "hello");
    CHECK(getenv("TEST_GONE") == NULL);
    puts("said on stdout");
    fputs("said on stderr", stderr);
    exit(7);
}

static void child_failing(void)
{
    FAIL("wrong");
}

static void child_endless(void)
{
    for (;;) pause();
}

static void test_other_processes(void)
{
    struct test_output output;
    setenv("TEST_GONE", "1", 1);
    test_exec_case("child:environment", (const char *[]){"TEST_WORD=hello", "TEST_GONE", NULL},
                   &output);
    unsetenv("TEST_GONE");
    CHECK_EQ(output.code, 7);
    CHECK_STR(output.out, "said on stdout\n");
    CHECK_STR(output.err, "said on stderr");
    test_exec_case("child:failing", NULL, &output);
    CHECK_EQ(output.code, 99);
    CHECK_HAS(output.err, "wrong");
    test_exec((const char *[]){"/proc/self/exe", "--child", "child:endless", NULL}, NULL, 1,
              &output);
    CHECK_EQ(output.code, -1);
    test_exec((const char *[]){"/bin/sh", "-c", "kill -9 $$", NULL}, NULL, 10, &output);
    CHECK_EQ(output.code, 128 + 9);
    test_exec((const char *[]){"/nonexistent/program", NULL}, NULL, 10, &output);
    CHECK_EQ(output.code, 127);
}

static const struct test_case cases[] = {
    {"a leaked fd is red", test_leaked_fd, 0},
    {"a leaked thread is red", test_leaked_thread, 0},
    {"a leaked mapping is red", test_leaked_mapping, 0},
    {"a leaked name in /dev/shm is red", test_leaked_shm_name, 0},
    {"a leaked abstract socket is red", test_leaked_socket, 0},
    {"a leaked child is red", test_leaked_child, 0},
    {"a closed file of others is red", test_closed_file, 0},
    {"failing checks are red and print both values", test_failing_checks, 0},
    {"a hang and a crash are named", test_hang_and_crash, 120},
    {"cases after a hang or a crash still run", test_later_cases_run, 120},
    {"other processes: environment, output, end", test_other_processes, 0},
    {"child:environment", child_environment, 0},
    {"child:failing", child_failing, 0},
    {"child:endless", child_endless, 0},
};

int main(int argc, char **argv)
{
    if (getenv("TEST_PLANTS") != NULL) {
        test_settle_limit_ms = 200;
        return test_main(argc, argv, plants, TEST_COUNT(plants));
    }
    return test_main(argc, argv, cases, TEST_COUNT(cases));
}
