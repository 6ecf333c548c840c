/* Signals of a driver: SIGINT, SIGTERM and SIGHUP are blocked in all threads and read from a
 * descriptor, so that the end of a run is ordinary code; SIGPIPE is an error of write.
 */
#ifndef PERF_SIGNALS_H
#define PERF_SIGNALS_H

/* Before the first thread. with_children: SIGCHLD too. */
void perf_signals_block(int with_children);
/* A descriptor that becomes readable; -1 when the system has none to give. */
int perf_signals_open(int with_children);
/* The next signal, 0 when there is none. Never blocks. */
int perf_signals_next(int fd);

#endif
