/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol of the canned responder: finds requests in a byte stream and writes
 * their responses. Pure. Reads as little as it needs (RFC 4511 4.1.1). */
#ifndef SLAM_CANNED_H
#define SLAM_CANNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum slam_canned_kind {
    SLAM_CANNED_SEARCH, /* answered by one entry and success */
    SLAM_CANNED_MODIFY,
    SLAM_CANNED_ADD,
    SLAM_CANNED_DELETE,
    SLAM_CANNED_MODIFY_DN,
    SLAM_CANNED_COMPARE, /* compareTrue */
    SLAM_CANNED_BIND,    /* of any kind: success, without serverSaslCreds */
    SLAM_CANNED_EXTENDED,
    SLAM_CANNED_ABANDON,   /* not answered */
    SLAM_CANNED_UNBIND,    /* not answered */
    SLAM_CANNED_START_TLS, /* extended too; refused: protocolError */
    SLAM_CANNED_KINDS
};

#define SLAM_CANNED_REQUEST_MAX (2u << 20) /* longer requests are malformed */
#define SLAM_CANNED_ANSWER_MAX 256u        /* bytes of the longest answer */

struct slam_canned_request {
    enum slam_canned_kind kind;
    int32_t message_id;
    size_t len; /* of the whole LDAPMessage */
};

/* RFC 4511's name of the operation, in lower case; StartTLS has its own. */
const char *slam_canned_name(enum slam_canned_kind kind);

bool slam_canned_has_answer(enum slam_canned_kind kind);

/* Whether this kind can be load: all that is answered, but StartTLS. */
bool slam_canned_is_load(enum slam_canned_kind kind);

/* The bytes' first request: 1 and *request, 0: incomplete, -1: malformed. */
int slam_canned_parse(const uint8_t *bytes, size_t len,
                      struct slam_canned_request *request);

/* Writes the response to out (SLAM_CANNED_ANSWER_MAX bytes). Returns its length. */
size_t slam_canned_answer(enum slam_canned_kind kind, int32_t message_id, uint8_t *out);

#endif
