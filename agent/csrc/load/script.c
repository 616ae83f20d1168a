/* SPDX-License-Identifier: Apache-2.0 */
#include "load/script.h"

#include "load/connection.h"
#include "load/request.h"
#include "load/session.h"

static void
end(struct slam_slot *slot, uint64_t received_ns, uint64_t done_ns)
{
    slam_session_end(slot);
    slam_conn_free_slot(slot, received_ns, done_ns);
}

/* Sends the step that the slot stands at; it was scheduled for this time. */
static void
send_step(struct slam_slot *slot, uint64_t intended_ns)
{
    struct slam_flow *flow = slot->conn->flow;

    slot->op = (uint16_t)flow->stream->steps[slot->step].op;
    slot->intended_ns = intended_ns;
    slot->slot_free_ns = 0;
    slam_flow_op_record(flow, slot->op, slam_flow_measures(flow, intended_ns))
        ->scheduled++;
    slam_request_send(slot);
}

/* Begins the step that the slot stands at, after its pause. */
static void
enter(struct slam_slot *slot, uint64_t since_ns)
{
    const struct slam_step *step = &slot->conn->flow->stream->steps[slot->step];

    if (step->pause_ns == 0) {
        send_step(slot, since_ns);
        return;
    }
    slot->state = SLAM_SLOT_PAUSED;
    slam_session_pause(slot, step->pause_list, since_ns + step->pause_ns);
}

/* The session's request is still in flight: it is given up. */
static void
abandon(struct slam_slot *slot)
{
    const struct slam_step *step = &slot->conn->flow->stream->steps[slot->step + 1];

    if (slot->conn->tx_len > 0)
        return; /* no way to tell the directory: its response ends the session */
    slam_request_abandon(slot, step->op);
    if (slot->conn->state == SLAM_CONN_BROKEN)
        return; /* its loss ends the session */
    slot->step++;
    if (step->last) {
        slam_session_no_response(slot, slot->sent_ns);
    } else {
        slot->step++;
        enter(slot, slot->sent_ns);
    }
}

static void
resume(struct slam_session *session)
{
    struct slam_slot *slot = session->slot;

    slam_session_resume(slot->conn->flow, session);
    if (slot->conn->state == SLAM_CONN_BROKEN)
        return; /* its loss ends the session */
    if (session->ending)
        end(slot, session->due_ns, session->due_ns);
    else if (slot->state == SLAM_SLOT_SENT)
        abandon(slot);
    else
        send_step(slot, session->due_ns);
}

void
slam_script_run(struct slam_flow *flow, uint64_t now_ns)
{
    for (uint32_t i = 0; flow->pauses && i <= flow->stream->pause_count; i++)
        while (flow->pauses[i].head && flow->pauses[i].head->due_ns <= now_ns)
            resume(flow->pauses[i].head);
}

void
slam_script_advance(struct slam_slot *slot, const struct slam_stream_op *op,
                    enum slam_outcome outcome, uint64_t received_ns, uint64_t done_ns)
{
    struct slam_flow *flow = slot->conn->flow;
    const struct slam_step *steps = flow->stream->steps;
    struct slam_session *session = slam_flow_session(flow, slot);

    if (!session) {
        end(slot, received_ns, done_ns);
        return;
    }
    slam_session_resume(flow, session);
    if (outcome != SLAM_FAILED && session->has_more) {
        send_step(slot, done_ns); /* its pause was before the first page */
        return;
    }
    /* what came before its abandon request was sent needs none */
    if (op->spec && !op->spec->awaits)
        slot->step++;
    if (outcome == SLAM_FAILED || steps[slot->step].last) {
        end(slot, received_ns, done_ns);
        return;
    }
    slot->step++;
    enter(slot, done_ns);
}
