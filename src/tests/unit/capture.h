/* Runs a function in a child process and keeps what it wrote. Used by the tests of the driver
 * harness, whose functions print and exit.
 */
#ifndef TEST_CAPTURE_H
#define TEST_CAPTURE_H

struct capture {
    int code;                   /* exit code; 128 + signal */
    char out[65536], err[8192]; /* cut at this size, always terminated */
};

/* The child exits with 0 when `run` returns. Ends the case when there is no process to be had. */
void capture_run(void (*run)(void *), void *argument, struct capture *capture);

#endif
