/* lead_stage.c: memory that other processes cannot map goes through a buffer that they can: copied
 * in before they are told that it is ready, and out when they are done, on the rank's stream.
 *
 * A collective's copies are listed while its ranks are described, and get their places in one
 * buffer then. The executor keeps it for the next collective, whose stream waits for this one: its
 * collectives are in order anyway. Messages are not, and each takes a buffer of its own. What is
 * captured has a buffer for as long as the communicator lives.
 */
#include "core/lead_impl.h"

#include "base/alloc.h"
#include "base/err.h"

enum { ALIGN_BYTES = 256 };

/* Memory that CUDA does not know would be copied by the calling thread, which must not wait. */
static ncclResult_t check_memory(struct ccl_lead *lead, const struct ccl_op *op, uint16_t q,
                                 const void *buffer)
{
    if (ccl_device()->foreign->staging_can_stand_for(buffer)) return ncclSuccess;
    return ccl_err(ncclInvalidUsage,
                   "nccl%s: rank %d: the memory of buffer %p cannot be shared with the process of "
                   "rank %d on the same GPU (use memory of CUDA, or cudaHostRegister)",
                   ccl_coll_name(op->coll), op->comm->rank, buffer,
                   lead->exec->clique->topo->first_rank[lead->procs[q]]);
}

void ccl_lead_stage_begin(struct ccl_lead *lead, int is_for_graph)
{
    lead->is_for_graph = is_for_graph;
    lead->ncopies = 0;
    lead->copies_bytes = 0;
}

/* An output that is the input before it stays so. */
static int is_in_place(const struct ccl_lead_copy *in, const struct ccl_lead_copy *out)
{
    return in->user == out->user && in->bytes == out->bytes && in->goes_in && !out->goes_in;
}

ncclResult_t ccl_lead_stage_add(struct ccl_lead *lead, const struct ccl_op *op,
                                struct ccl_lead_copy copy)
{
    const struct ccl_lead_copy *before =
        lead->ncopies > 0 ? &lead->copies[lead->ncopies - 1] : NULL;
    TRY(check_memory(lead, op, 0, copy.user));
    if (before != NULL && is_in_place(before, &copy)) {
        copy.at = before->at;
    } else {
        copy.at = lead->copies_bytes;
        lead->copies_bytes += (copy.bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    }
    lead->copies[lead->ncopies++] = copy;
    return ncclSuccess;
}

static ncclResult_t take_for_graph(struct ccl_lead *lead, size_t bytes, struct ccl_staging **out)
{
    TRY(ccl_grow((void **)&lead->graph_stagings, lead->ngraph_stagings, &lead->graph_stagings_room,
                 sizeof(struct ccl_staging *)));
    TRY(ccl_device()->foreign->staging_take(bytes, out));
    lead->graph_stagings[lead->ngraph_stagings++] = *out;
    return ncclSuccess;
}

/* The buffer that the executor keeps, after its latest use. */
static ncclResult_t find_room(struct ccl_lead *lead, cudaStream_t stream)
{
    const struct ccl_foreign_ops *foreign = ccl_device()->foreign;
    if (lead->is_for_graph) return take_for_graph(lead, lead->copies_bytes, &lead->staged);
    if (lead->staging != NULL && lead->staging->bytes < lead->copies_bytes) {
        foreign->staging_put(lead->staging);
        lead->staging = NULL;
    }
    if (lead->staging == NULL) TRY(foreign->staging_take(lead->copies_bytes, &lead->staging));
    lead->staged = lead->staging;
    return foreign->staging_follow(lead->staging, stream);
}

static ncclResult_t mark(struct ccl_lead *lead, cudaStream_t stream)
{
    if (lead->is_for_graph) return ncclSuccess;
    return ccl_device()->foreign->staging_mark(lead->staging, stream);
}

static ncclResult_t copy_in(struct ccl_lead *lead, cudaStream_t stream)
{
    for (size_t i = 0; i < lead->ncopies; i++) {
        const struct ccl_lead_copy *copy = &lead->copies[i];
        char *at = lead->staged->memory + copy->at;
        TRY(ccl_lead_export(lead, 0, at, copy->bytes, copy->ref));
        if (copy->goes_in) TRY(ccl_device()->base.copy(at, copy->user, copy->bytes, stream));
    }
    return ncclSuccess;
}

ncclResult_t ccl_lead_stage_in(struct ccl_lead *lead, cudaStream_t stream)
{
    if (lead->ncopies == 0) return ncclSuccess;
    TRY(find_room(lead, stream));
    ncclResult_t rc = copy_in(lead, stream);
    if (rc != ncclSuccess) (void)mark(lead, stream);
    return rc;
}

ncclResult_t ccl_lead_stage_out(struct ccl_lead *lead, cudaStream_t stream, ncclResult_t rc)
{
    if (lead->ncopies == 0) return rc;
    for (size_t i = 0; rc == ncclSuccess && i < lead->ncopies; i++) {
        const struct ccl_lead_copy *copy = &lead->copies[i];
        if (copy->comes_out)
            rc = ccl_device()->base.copy(copy->user, lead->staged->memory + copy->at, copy->bytes,
                                         stream);
    }
    ncclResult_t mark_rc = mark(lead, stream);
    return rc != ncclSuccess ? rc : mark_rc;
}

ncclResult_t ccl_lead_stage_send(struct ccl_lead *lead, struct ccl_mail *mail, uint16_t q,
                                 struct ccl_foreign_ref *ref)
{
    const struct ccl_op *op = &mail->op;
    const struct ccl_foreign_ops *foreign = ccl_device()->foreign;
    size_t bytes = op->count_elems * ccl_type_bytes(op->type);
    struct ccl_staging *staging;
    TRY(check_memory(lead, op, q, op->in));
    if (mail->capture != 0) {
        TRY(take_for_graph(lead, bytes, &staging));
    } else {
        TRY(foreign->staging_take(bytes, &staging));
        mail->staging = staging;
    }
    TRY(ccl_lead_export(lead, q, staging->memory, bytes, ref));
    ncclResult_t rc = ccl_device()->base.copy(staging->memory, op->in, bytes, op->stream);
    if (mail->capture != 0) return rc;
    ncclResult_t mark_rc = foreign->staging_mark(staging, op->stream);
    return rc != ncclSuccess ? rc : mark_rc;
}

void ccl_lead_stage_close(struct ccl_lead *lead)
{
    const struct ccl_foreign_ops *foreign = ccl_device()->foreign;
    for (size_t i = 0; i < lead->nmails; i++) foreign->staging_put(lead->mails[i].staging);
    for (size_t i = 0; i < lead->ngraph_stagings; i++)
        foreign->staging_put(lead->graph_stagings[i]);
    foreign->staging_put(lead->staging);
    ccl_free(lead->graph_stagings);
    ccl_free(lead->copies);
}
