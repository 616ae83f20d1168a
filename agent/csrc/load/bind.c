/* SPDX-License-Identifier: Apache-2.0 */
#include "load/bind.h"
#include "core/slam_err.h"

#include "ldap/content.h"

#include <string.h>

#define SASL_BIND_IN_PROGRESS 14

/* A variable as a C string, for libsasl; NULL where there is none. */
static const char *
c_text(const struct slam_session *session, uint32_t variable, char *text)
{
    const struct slam_variable *v;

    if (variable == SLAM_NO_VARIABLE)
        return NULL;
    v = &session->variables[variable];
    memcpy(text, v->text, v->len);
    text[v->len] = '\0';
    return text;
}

/* What a bind's next request carries. */
static bool
set_credentials(struct slam_session *session, const struct slam_session_spec *spec,
                const uint8_t *bytes, size_t len)
{
    struct slam_variable *v = &session->variables[spec->sasl.credentials];

    if (len > sizeof(v->text))
        return false;
    if (len > 0)
        memcpy(v->text, bytes, len);
    v->len = (uint32_t)len;
    return true;
}

bool
slam_bind_begin(struct slam_slot *slot, struct slam_session *session,
                const struct slam_session_spec *spec)
{
    char authcid[SLAM_VARIABLE_MAX + 1];
    char authzid[SLAM_VARIABLE_MAX + 1];
    const struct slam_variable *password = NULL;
    char err[SLAM_ERR_LEN];
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
        slot->conn->request.config->bind.realm, &session->sasl, err);
    if (rc == 0)
        rc = slam_sasl_step(session->sasl, NULL, 0, &out, &out_len);
    return rc >= 0 && set_credentials(session, spec, out, out_len);
}

bool
slam_bind_continue(struct slam_slot *slot, const struct slam_stream_op *op,
                   int32_t code, const struct slam_bytes *message)
{
    struct slam_session *session = slam_flow_session(slot->conn->flow, slot);
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
