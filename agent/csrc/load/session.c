/* SPDX-License-Identifier: Apache-2.0 */
#include "load/session.h"

#include "core/ber.h"
#include "core/clock.h"

#include <string.h>

#define SASL_BIND_IN_PROGRESS 14
#define NO_SUCH_OBJECT 32

/* The last list is of sessions that end in the next turn. */
static struct slam_pause_list *
list_of(const struct slam_flow *flow, const struct slam_session_state *session)
{
    return &flow->pauses[session->ending ? flow->stream->pause_count
                                         : session->pause_list];
}

/* A list is in order of due_ns by itself: all its pauses are equally long. */
static void
enlist(struct slam_flow *flow, struct slam_session_state *session, uint64_t due_ns)
{
    struct slam_pause_list *list = list_of(flow, session);

    session->due_ns = due_ns;
    session->pausing = true;
    TAILQ_INSERT_TAIL(list, session, in_paused);
}

void
slam_session_pause(struct slam_slot *slot, uint32_t pause_list, uint64_t due_ns)
{
    struct slam_session_state *session = slam_flow_session(slot->conn->flow, slot);

    session->pause_list = pause_list;
    enlist(slot->conn->flow, session, due_ns);
}

void
slam_session_resume(struct slam_flow *flow, struct slam_session_state *session)
{
    struct slam_pause_list *list = list_of(flow, session);

    if (!session->pausing)
        return;
    TAILQ_REMOVE(list, session, in_paused);
    session->pausing = false;
}

void
slam_session_no_response(struct slam_slot *slot, uint64_t sent_ns)
{
    struct slam_session_state *session = slam_flow_session(slot->conn->flow, slot);

    /* not at once: what the freed slot sends next may have no response either */
    slot->state = SLAM_SLOT_PAUSED;
    session->ending = true;
    enlist(slot->conn->flow, session, sent_ns);
}

uint64_t
slam_session_next_ns(const struct slam_flow *flow)
{
    const struct slam_session_state *session;
    uint64_t next_ns = UINT64_MAX;

    for (uint32_t i = 0; flow->pauses && i <= flow->stream->pause_count; i++)
        if ((session = TAILQ_FIRST(&flow->pauses[i])) != NULL)
            next_ns = slam_earlier_ns(next_ns, session->due_ns);
    return next_ns;
}

/* A variable as a C string, for libsasl; NULL where there is none. */
static const char *
c_text(const struct slam_session_state *session, uint32_t variable, char *text)
{
    const struct slam_variable *v;

    if (variable == SLAM_NO_VARIABLE)
        return NULL;
    v = &session->variables[variable];
    memcpy(text, v->text, v->len);
    text[v->len] = '\0';
    return text;
}

/* Sets the variable to the credentials with tag and length; NULL: they are absent, as
 * in the first request of a mechanism whose server speaks first. */
static bool
set_credentials(struct slam_session_state *session,
                const struct slam_session_spec *spec, const uint8_t *bytes, size_t len)
{
    struct slam_variable *v = &session->variables[spec->sasl.credentials];
    size_t header = bytes ? slam_ber_header_len(len) : 0;

    if (header + len > sizeof(v->text))
        return false;
    if (bytes)
        memcpy(slam_ber_put_header(v->text, SLAM_BER_OCTET_STRING, len), bytes, len);
    v->len = (uint32_t)(header + len);
    return true;
}

static bool
begin_bind(struct slam_slot *slot, struct slam_session_state *session,
           const struct slam_session_spec *spec)
{
    char authcid[SLAM_VARIABLE_MAX + 1];
    char authzid[SLAM_VARIABLE_MAX + 1];
    const struct slam_variable *password = NULL;
    const uint8_t *out = NULL;
    size_t out_len = 0;
    int rc;

    if (spec->sasl.password != SLAM_NO_VARIABLE)
        password = &session->variables[spec->sasl.password];
    slam_sasl_destroy(session->sasl);
    session->sasl = NULL;
    rc = slam_sasl_create(
        spec->sasl.mechanism,
        slot->conn->flow->stream->hosts[slot->conn->request.uri_index],
        c_text(session, spec->sasl.authcid, authcid), password ? password->text : NULL,
        password ? password->len : 0, c_text(session, spec->sasl.authzid, authzid),
        slot->conn->request.config->bind.realm, &session->sasl);
    if (rc == 0)
        rc = slam_sasl_step(session->sasl, NULL, 0, &out, &out_len);
    return rc >= 0 && set_credentials(session, spec, out, out_len);
}

bool
slam_session_continue_bind(struct slam_slot *slot, const struct slam_stream_op *op,
                           int32_t code, const struct slam_bytes *message)
{
    struct slam_session_state *session = slam_flow_session(slot->conn->flow, slot);
    const uint8_t *out = NULL;
    size_t out_len = 0;
    struct slam_bytes in;

    if (!op->spec->sasl.mechanism || (code != 0 && code != SASL_BIND_IN_PROGRESS))
        return false;
    if (!slam_content_credentials(message->at, message->len, &in)) {
        session->sasl_failed = true;
        return false;
    }
    if (code == 0 && in.len == 0)
        return false;
    if (slam_sasl_step(session->sasl, in.at, in.len, &out, &out_len) < 0 ||
        (code == SASL_BIND_IN_PROGRESS &&
         !set_credentials(session, op->spec, out, out_len)))
        session->sasl_failed = true;
    return code != 0 && !session->sasl_failed;
}

struct slam_partition_cursor *
slam_session_states(const struct slam_flow *flow, uint32_t op)
{
    const struct slam_stream_op *o = &flow->stream->ops[op];
    struct slam_partition_cursor *states = flow->value_states + flow->first_state[op];

    for (size_t i = 0; o->spec && i < o->spec->let_count; i++)
        states += slam_template_source_count(o->lets[i]);
    return states;
}

/* The ledger is empty: a new session adds an entry instead; one under way ends. */
static bool
substitute(struct slam_slot *slot, const struct slam_session_spec *spec)
{
    struct slam_flow *flow = slot->conn->flow;
    const struct slam_stream *stream = flow->stream;
    bool is_first = slot->step == 0 || stream->steps[slot->step - 1].last;

    slam_flow_op_record(flow, slot->op, slot->measured)->substituted++;
    if (!is_first)
        return false;
    slot->step = (uint16_t)slam_stream_filling(stream, spec->ledger)->first_step;
    slot->op = (uint16_t)stream->steps[slot->step].op;
    slam_flow_op_record(flow, slot->op, slot->measured)->scheduled++;
    return true;
}

static bool
take_entry(struct slam_slot *slot, struct slam_session_state *session,
           const struct slam_session_spec *spec)
{
    struct slam_flow *flow = slot->conn->flow;
    struct slam_variable *dn = &session->variables[spec->ledger_take];

    session->has_taken =
        slam_ledger_take(flow->ledgers[spec->ledger], spec->ledger_order,
                         &flow->values_rng, &session->taken, dn->text, &dn->len);
    return session->has_taken;
}

static bool
intend_entry(struct slam_flow *flow, struct slam_session_state *session,
             const struct slam_session_spec *spec)
{
    const struct slam_variable *dn = &session->variables[spec->ledger_put];

    session->intended =
        slam_ledger_intend(flow->ledgers[spec->ledger], dn->text, dn->len);
    session->has_intended = session->intended != SLAM_LEDGER_NONE;
    return session->has_intended;
}

static void
reset(struct slam_session_state *session, const struct slam_session_spec *spec)
{
    session->captured = 0;
    session->entry_seen = session->sasl_failed = false;
    session->has_taken = session->has_intended = false;
    /* the first page has no cookie, whatever another script left in the variable */
    if (spec->cookie_variable != SLAM_NO_VARIABLE)
        session->variables[spec->cookie_variable].len = 0;
}

enum slam_prepared
slam_session_prepare(struct slam_slot *slot, struct slam_draw *draw,
                     struct slam_partition_cursor **states)
{
    struct slam_flow *flow = slot->conn->flow;
    const struct slam_session_spec *spec = flow->stream->ops[slot->op].spec;
    struct slam_session_state *session = slam_flow_session(flow, slot);

    /* RFC 2696: the next page's request is the same but for the cookie */
    if (session->has_more) {
        *states = slam_session_states(flow, slot->op);
        return SLAM_PREPARED;
    }
    reset(session, spec);
    while (spec->ledger_take != SLAM_NO_VARIABLE && !take_entry(slot, session, spec)) {
        if (!substitute(slot, spec)) {
            slam_session_no_response(slot, slam_clock_mono_ns());
            return SLAM_PREPARED_ENDS;
        }
        spec = flow->stream->ops[slot->op].spec;
        *states = flow->value_states + flow->first_state[slot->op];
        if (!spec)
            return SLAM_PREPARED;
        reset(session, spec);
    }
    for (size_t i = 0; i < spec->let_count; i++) {
        const struct slam_template *text = flow->stream->ops[slot->op].lets[i];
        struct slam_variable *v = &session->variables[spec->lets[i].variable];

        /* its length was checked against the variable's when it was compiled */
        v->len = (uint32_t)slam_template_text(text, *states, draw, v->text);
        *states += slam_template_source_count(text);
    }
    if ((spec->ledger_put != SLAM_NO_VARIABLE && !intend_entry(flow, session, spec)) ||
        (spec->sasl.mechanism && !begin_bind(slot, session, spec)))
        return SLAM_PREPARED_FAILED;
    return SLAM_PREPARED;
}

void
slam_session_entry(struct slam_slot *slot, const struct slam_stream_op *op,
                   const struct slam_bytes *message)
{
    struct slam_session_state *session = slam_flow_session(slot->conn->flow, slot);

    if (session->entry_seen)
        return;
    session->entry_seen = true;
    for (size_t i = 0; i < op->spec->capture_count; i++) {
        const struct slam_capture_config *c = &op->spec->captures[i];
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
settle_ledger(struct slam_flow *flow, struct slam_session_state *session,
              const struct slam_stream_op *op, int32_t code)
{
    struct slam_ledger *ledger = flow->ledgers[op->spec->ledger];
    bool done = code == 0; /* a success that the job does not expect is one here */
    /* A directory may answer this for an entry that exists or was renamed
     * (389-DS 2.3.1, when another write replaces the parent): both DNs stay in doubt.
     */
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
            slam_ledger_added(ledger, session->taken);
    }
    session->has_intended = session->has_taken = false;
}

/* RFC 2696: an empty cookie, or none, ends the search. */
static enum slam_outcome
turn_page(struct slam_session_state *session, const struct slam_session_spec *spec,
          enum slam_outcome outcome, const struct slam_bytes *message)
{
    struct slam_variable *v = &session->variables[spec->cookie_variable];
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
    struct slam_session_state *session = slam_flow_session(flow, slot);
    const struct slam_session_spec *spec = op->spec;

    session->has_more = false;
    if (session->sasl_failed)
        outcome = SLAM_FAILED;
    if (outcome == SLAM_SUCCEEDED && spec->capture_count > 0 &&
        session->captured != (UINT64_C(1) << spec->capture_count) - 1) {
        outcome = SLAM_FAILED;
        slam_conn_op_record(slot->conn, slot->op, slot->measured)->captures_missing++;
    }
    if (spec->cookie_variable != SLAM_NO_VARIABLE)
        outcome = turn_page(session, spec, outcome, message);
    if (session->has_taken || session->has_intended)
        settle_ledger(flow, session, op, code);
    return outcome;
}

void
slam_session_end(struct slam_slot *slot)
{
    struct slam_flow *flow = slot->conn->flow;
    struct slam_session_state *session = slam_flow_session(flow, slot);

    flow->active--;
    flow->worker->active--;
    if (!session)
        return;
    slam_session_resume(flow, session);
    session->ending = session->has_more = false;
    /* the ledger keeps as in doubt what a lost request had in hand */
    session->has_taken = session->has_intended = false;
    slam_sasl_destroy(session->sasl);
    session->sasl = NULL;
}
