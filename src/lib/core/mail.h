/* mail.h: send and receive between ranks that share a GPU from two processes.
 *
 * The sender describes its buffer, its stream says when it is ready and waits until it was read;
 * the receiver's process copies. In a group all sends speak before any stream waits, so that no
 * cycle arises. Called with the executor's lock held.
 */
#ifndef CCL_CORE_MAIL_H
#define CCL_CORE_MAIL_H

#include "core/lead.h"

/* Adds a send or receive whose peer is in another process. */
ncclResult_t ccl_mail_post(struct ccl_exec *exec, const struct ccl_record *record);
/* After all records of a group end. Receives whose sender is late are left to the thread. */
ncclResult_t ccl_mail_flush(struct ccl_exec *exec);
/* The oldest message of a rank that is not over: 1, its peer and a text. */
int ccl_mail_waiting(const struct ncclComm *comm, int *peer, char *text, size_t bytes);

#endif
