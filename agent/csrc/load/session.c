/* SPDX-License-Identifier: Apache-2.0 */
#include "load/session.h"

#include "core/clock.h"
#include "load/bind.h"
#include "load/request.h"

#include <string.h>

#define NO_SUCH_OBJECT 32

/* -- pauses -- */

/* Behind the lists of the steps with a pause: sessions that end in the next turn. */
static struct slam_pause_list *
ending_list(const struct slam_flow *flow)
{
    return &flow->pauses[flow->stream->pause_count];
}

static struct slam_pause_list *
list_of(const struct slam_flow *flow, const struct slam_session *session)
{
    return session->ending ? ending_list(flow) : &flow->pauses[session->pause_list];
}

/* Lists are in order of due_ns by themselves: all pauses of a list are equally long. */
static void
enlist(struct slam_flow *flow, struct slam_session *session, uint64_t due_ns)
{
    struct slam_pause_list *list = list_of(flow, session);

    session->due_ns = due_ns;
    session->pausing = true;
    session->next_paused = NULL;
    session->previous_paused = list->tail;
    if (list->tail)
        list->tail->next_paused = session;
    else
        list->head = session;
    list->tail = session;
}

static void
unlist(struct slam_flow *flow, struct slam_session *session)
{
    struct slam_pause_list *list = list_of(flow, session);

    if (session->previous_paused)
        session->previous_paused->next_paused = session->next_paused;
    else
        list->head = session->next_paused;
    if (session->next_paused)
        session->next_paused->previous_paused = session->previous_paused;
    else
        list->tail = session->previous_paused;
    session->pausing = false;
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
    struct slam_flow *flow = slot->conn->flow;
    const struct slam_step *step = &flow->stream->steps[slot->step];
    struct slam_session *session = slam_flow_session(flow, slot);

    if (step->pause_ns == 0) {
        send_step(slot, since_ns);
        return;
    }
    slot->state = SLAM_SLOT_PAUSED;
    session->pause_list = step->pause_list;
    enlist(flow, session, since_ns + step->pause_ns);
}

void
slam_session_unanswered(struct slam_slot *slot, uint64_t sent_ns)
{
    struct slam_flow *flow = slot->conn->flow;
    struct slam_session *session = slam_flow_session(flow, slot);

    /* not at once: what the freed slot sends next may have no response either */
    slot->state = SLAM_SLOT_PAUSED;
    session->ending = true;
    enlist(flow, session, sent_ns);
}

void
slam_session_await_not(struct slam_slot *slot)
{
    struct slam_flow *flow = slot->conn->flow;
    struct slam_session *session = slam_flow_session(flow, slot);
    const struct slam_step *next = &flow->stream->steps[slot->step + 1];

    session->pause_list = next->pause_list;
    enlist(flow, session, slot->sent_ns + next->pause_ns);
}

/* The session's request is still in flight: it is given up. */
static void
abandon(struct slam_slot *slot)
{
    struct slam_flow *flow = slot->conn->flow;
    const struct slam_step *step = &flow->stream->steps[slot->step + 1];

    if (slot->conn->waits_for_write)
        return; /* no way to tell the directory: its response ends the session */
    if (!slam_request_abandon(slot, step->op))
        return; /* the connection is lost, and with it the session */
    slot->step++;
    if (step->last) {
        slam_session_unanswered(slot, slot->sent_ns);
    } else {
        slot->step++;
        slot->state = SLAM_SLOT_FREE;
        enter(slot, slot->sent_ns);
    }
}

static void
resume(struct slam_session *session)
{
    struct slam_slot *slot = session->slot;
    struct slam_flow *flow = slot->conn->flow;

    unlist(flow, session);
    if (session->ending)
        slam_request_finish(slot, session->due_ns, session->due_ns);
    else if (slot->state == SLAM_SLOT_SENT)
        abandon(slot);
    else
        send_step(slot, session->due_ns);
}

void
slam_session_run(struct slam_flow *flow, uint64_t now_ns)
{
    if (!flow->pauses)
        return;
    for (uint32_t i = 0; i <= flow->stream->pause_count; i++)
        while (flow->pauses[i].head && flow->pauses[i].head->due_ns <= now_ns)
            resume(flow->pauses[i].head);
}

uint64_t
slam_session_next_ns(const struct slam_flow *flow)
{
    uint64_t next_ns = UINT64_MAX;

    for (uint32_t i = 0; flow->pauses && i <= flow->stream->pause_count; i++)
        if (flow->pauses[i].head && flow->pauses[i].head->due_ns < next_ns)
            next_ns = flow->pauses[i].head->due_ns;
    return next_ns;
}

/* -- before a request -- */

struct slam_value_state *
slam_session_states(const struct slam_flow *flow, uint32_t op)
{
    const struct slam_op_extras *extras = flow->stream->ops[op].extras;
    struct slam_value_state *states = flow->value_states + flow->first_state[op];

    for (size_t i = 0; extras && i < extras->let_count; i++)
        states += slam_op_source_count(extras->lets[i].text);
    return states;
}

/* There is no entry left to take: the session adds one instead; a session that is on
 * its way already ends. */
static void
substitute(struct slam_slot *slot, const struct slam_op_extras *extras)
{
    struct slam_flow *flow = slot->conn->flow;
    const struct slam_stream *stream = flow->stream;
    const struct slam_script *script = slam_stream_filling(stream, extras->ledger);
    bool is_first = slot->step == 0 || stream->steps[slot->step - 1].last;

    slam_flow_op_record(flow, slot->op, slot->measured)->substituted++;
    if (!is_first) {
        slam_session_unanswered(slot, slam_clock_mono_ns());
        return;
    }
    slot->step = (uint16_t)script->first_step;
    slot->op = (uint16_t)stream->steps[slot->step].op;
    slam_flow_op_record(flow, slot->op, slot->measured)->scheduled++;
    slam_request_send(slot);
}

static bool
take_entry(struct slam_slot *slot, struct slam_session *session,
           const struct slam_op_extras *extras)
{
    struct slam_flow *flow = slot->conn->flow;
    struct slam_variable *dn = &session->variables[extras->ledger_take];

    session->has_taken =
        slam_ledger_take(flow->ledgers[extras->ledger], extras->ledger_order,
                         &flow->values_rng, &session->taken, dn->text, &dn->len);
    return session->has_taken;
}

static bool
intend_entry(struct slam_flow *flow, struct slam_session *session,
             const struct slam_op_extras *extras)
{
    const struct slam_variable *dn = &session->variables[extras->ledger_put];

    session->intended =
        slam_ledger_intend(flow->ledgers[extras->ledger], dn->text, dn->len);
    session->has_intended = session->intended != SLAM_LEDGER_NONE;
    return session->has_intended;
}

bool
slam_session_prepare(struct slam_slot *slot, struct slam_draw *draw,
                     struct slam_value_state **states)
{
    struct slam_flow *flow = slot->conn->flow;
    const struct slam_op_extras *extras = flow->stream->ops[slot->op].extras;
    struct slam_session *session = slam_flow_session(flow, slot);

    if (session->has_more) {
        /* RFC 2696: but for the cookie, the next page's request is the one before; what
         * was drawn and captured for the first page stays */
        for (size_t i = 0; i < extras->let_count; i++)
            *states += slam_op_source_count(extras->lets[i].text);
        return true;
    }
    session->captured = 0;
    session->entry_seen = session->sasl_failed = false;
    session->has_taken = session->has_intended = false;
    /* the first page has no cookie, whatever another script left in the variable */
    if (extras->cookie != SLAM_NO_VARIABLE)
        session->variables[extras->cookie].len = 0;
    if (extras->ledger_take != SLAM_NO_VARIABLE && !take_entry(slot, session, extras)) {
        substitute(slot, extras);
        return false;
    }
    for (size_t i = 0; i < extras->let_count; i++) {
        const struct slam_let *let = &extras->lets[i];
        struct slam_variable *v = &session->variables[let->variable];

        /* its length was checked against the variable's when it was compiled */
        v->len = (uint32_t)slam_op_text(let->text, *states, draw, flow->worker->scratch,
                                        v->text, sizeof(v->text));
        *states += slam_op_source_count(let->text);
    }
    if ((extras->ledger_put != SLAM_NO_VARIABLE &&
         !intend_entry(flow, session, extras)) ||
        (extras->mechanism && !slam_bind_begin(slot, session, extras))) {
        /* not for ever again at once: the connection's loss has a wait before the next
         */
        slot->state = SLAM_SLOT_BLOCKED;
        slam_request_give_connection_up(slot->conn);
        return false;
    }
    return true;
}

/* -- responses -- */

void
slam_session_entry(struct slam_slot *slot, const struct slam_stream_op *op,
                   const struct slam_bytes *message)
{
    struct slam_session *session = slam_flow_session(slot->conn->flow, slot);

    if (session->entry_seen)
        return;
    session->entry_seen = true;
    for (size_t i = 0; i < op->extras->capture_count; i++) {
        const struct slam_capture_config *c = &op->extras->captures[i];
        struct slam_variable *v = &session->variables[c->variable];
        struct slam_bytes found;
        bool is_there =
            c->attribute_len == 0
                ? slam_content_dn(message->at, message->len, &found)
                : slam_content_attribute(message->at, message->len, c->attribute,
                                         c->attribute_len, &found);

        if (!is_there || found.len > sizeof(v->text))
            continue;
        memcpy(v->text, found.at, found.len);
        v->len = (uint32_t)found.len;
        session->captured |= UINT64_C(1) << i;
    }
}

static void
settle_ledger(struct slam_flow *flow, struct slam_session *session,
              const struct slam_stream_op *op, int32_t code)
{
    struct slam_ledger *ledger = flow->ledgers[op->extras->ledger];
    bool done = code == 0; /* a success that the job does not expect is one here */
    /* A directory may say so of an entry that is there, and of one it has renamed
     * (389-DS 2.3.1 does, when another write replaces the parent): both DNs stay in
     * doubt. */
    bool in_doubt = session->has_taken && code == NO_SUCH_OBJECT;

    if (session->has_intended && done)
        slam_ledger_added(ledger, session->intended);
    else if (session->has_intended && !in_doubt)
        slam_ledger_failed(ledger, session->intended);
    if (session->has_taken) {
        bool removes = op->response_tag == SLAM_PDU_DELETE_RESPONSE ||
                       session->has_intended; /* renamed: it has another DN now */

        if (done && removes)
            slam_ledger_gone(ledger, session->taken);
        else if (!in_doubt)
            slam_ledger_put_back(ledger, session->taken);
    }
    session->has_intended = session->has_taken = false;
}

/* RFC 2696: an empty cookie, or none, ends the search. */
static enum slam_outcome
turn_page(struct slam_session *session, const struct slam_op_extras *extras,
          enum slam_outcome outcome, const struct slam_bytes *message)
{
    struct slam_variable *v = &session->variables[extras->cookie];
    struct slam_bytes cookie = {0};

    v->len = 0;
    if (message->len >= SLAM_KEEP_BYTES)
        return SLAM_FAILED; /* cut off: there may be a cookie in the rest */
    if (outcome != SLAM_SUCCEEDED ||
        !slam_content_cookie(message->at, message->len, &cookie) || cookie.len == 0)
        return outcome;
    if (cookie.len > sizeof(v->text))
        return SLAM_FAILED;
    memcpy(v->text, cookie.at, cookie.len);
    v->len = (uint32_t)cookie.len;
    session->has_more = true;
    return outcome;
}

enum slam_outcome
slam_session_answered(struct slam_slot *slot, const struct slam_stream_op *op,
                      int32_t code, enum slam_outcome outcome,
                      const struct slam_bytes *message)
{
    struct slam_flow *flow = slot->conn->flow;
    struct slam_session *session = slam_flow_session(flow, slot);
    const struct slam_op_extras *extras = op->extras;

    session->has_more = false;
    if (session->sasl_failed)
        outcome = SLAM_FAILED;
    if (outcome == SLAM_SUCCEEDED && extras->capture_count > 0 &&
        session->captured != (UINT64_C(1) << extras->capture_count) - 1) {
        outcome = SLAM_FAILED;
        slam_flow_op_record(flow, slot->op, slot->measured)->captures_missing++;
    }
    if (extras->cookie != SLAM_NO_VARIABLE)
        outcome = turn_page(session, extras, outcome, message);
    if (session->has_taken || session->has_intended)
        settle_ledger(flow, session, op, code);
    return outcome;
}

/* -- steps -- */

void
slam_session_go_on(struct slam_slot *slot, const struct slam_stream_op *op,
                   enum slam_outcome outcome, uint64_t received_ns, uint64_t done_ns)
{
    struct slam_flow *flow = slot->conn->flow;
    const struct slam_step *steps = flow->stream->steps;
    struct slam_session *session = slam_flow_session(flow, slot);

    if (session->pausing)
        unlist(flow, session);
    if (outcome == SLAM_FAILED) {
        slam_request_finish(slot, received_ns, done_ns);
        return;
    }
    if (session->has_more) {
        send_step(slot, done_ns); /* its pause was before the first page */
        return;
    }
    /* what came before its abandon request was sent needs none */
    if (op->extras && !op->extras->awaits)
        slot->step++;
    if (steps[slot->step].last) {
        slam_request_finish(slot, received_ns, done_ns);
        return;
    }
    slot->step++;
    enter(slot, done_ns);
}

void
slam_session_end(struct slam_slot *slot)
{
    struct slam_flow *flow = slot->conn->flow;
    struct slam_session *session = slam_flow_session(flow, slot);

    flow->active--;
    flow->worker->active--;
    if (!session)
        return;
    if (session->pausing)
        unlist(flow, session);
    session->ending = session->has_more = false;
    /* the ledger keeps as in doubt what a lost request had in hand */
    session->has_taken = session->has_intended = false;
    slam_sasl_destroy(session->sasl);
    session->sasl = NULL;
}
