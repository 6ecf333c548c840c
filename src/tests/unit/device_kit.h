/* Kernels and waits that the tests of the host devices share. */
#ifndef TEST_DEVICE_KIT_H
#define TEST_DEVICE_KIT_H

#include "device/device.h"

#include <stdatomic.h>
#include <stdint.h>

/* Opens all kernels that wait at `gate`. */
void kit_open(_Atomic uint32_t *gate);

/* Enqueues a kernel that ends when the gate is open. */
void kit_wait_gate(cudaStream_t stream, _Atomic uint32_t *gate);

/* Enqueues a kernel that opens the gate. */
void kit_open_gate(cudaStream_t stream, _Atomic uint32_t *gate);

/* Enqueues a kernel that ends when `target` kernels (lanes) have added themselves to `count`. */
void kit_meet(cudaStream_t stream, _Atomic uint64_t *count, uint64_t target);

/* Enqueues a kernel that expects *value == from and sets it to `to`. */
void kit_step(cudaStream_t stream, uint64_t *value, uint64_t from, uint64_t to);

/* Fails the case if a step so far did not find what it expected. */
void kit_check_steps(void);

/* Polls, without helping, until the stream is idle; fails the case after 20 s. */
void kit_poll_idle(cudaStream_t stream);

/* 1 when the stream is idle now. */
int kit_is_idle(cudaStream_t stream);

cudaStream_t kit_stream(void);
chorus_event_t kit_event(void);

/* Threads of this process now; when `want` is not 0, polls until there are that many. */
int kit_count_threads(int want);

#endif
