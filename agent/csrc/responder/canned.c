/* SPDX-License-Identifier: Apache-2.0 */
#include "responder/canned.h"

#include "core/ber.h"

#include <string.h>

#define ID_BYTES_MAX 4u

static const struct {
    const char *name;
    uint8_t request;  /* tag of the protocolOp (RFC 4511, sections 4.2 to 4.12) */
    uint8_t response; /* 0: none */
    uint8_t result_code;
} kinds[SLAM_CANNED_KINDS] = {
    [SLAM_CANNED_SEARCH] = {"search", 0x63, 0x65, 0},
    [SLAM_CANNED_MODIFY] = {"modify", 0x66, 0x67, 0},
    [SLAM_CANNED_ADD] = {"add", 0x68, 0x69, 0},
    [SLAM_CANNED_DELETE] = {"delete", 0x4a, 0x6b, 0},
    [SLAM_CANNED_MODIFY_DN] = {"modify_dn", 0x6c, 0x6d, 0},
    [SLAM_CANNED_COMPARE] = {"compare", 0x6e, 0x6f, 6},
    [SLAM_CANNED_BIND] = {"bind", 0x60, 0x61, 0},
    [SLAM_CANNED_EXTENDED] = {"extended", 0x77, 0x78, 0},
    [SLAM_CANNED_ABANDON] = {"abandon", 0x50, 0, 0},
    [SLAM_CANNED_UNBIND] = {"unbind", 0x42, 0, 0},
    /* found by its name, not by its tag (section 4.14) */
    [SLAM_CANNED_START_TLS] = {"start_tls", 0, 0x78, 2},
};

/* The requestName of StartTLS, as the first element of an ExtendedRequest. */
static const uint8_t start_tls_name[] = "\x80\x16"
                                        "1.3.6.1.4.1.1466.20037";

/* SearchResultEntry of uid=user.0,ou=people,dc=example,dc=com with five attributes. */
static const uint8_t entry_op[] =
    "d\x81\xa4\x04&uid=user.0,ou=people,dc=example,dc=com0z"
    "0+\x04\x0bobjectClass1\x1c\x04\x03top\x04\x06person\x04\rinetOrgPerson"
    "0\x0f\x04\x03uid1\x08\x04\x06user.0"
    "0\x0e\x04\x02\x63n1\x08\x04\x06User 0"
    "0\x0c\x04\x02sn1\x06\x04\x04User"
    "0\x1c\x04\x04mail1\x14\x04\x12user.0@example.com";

const char *
slam_canned_name(enum slam_canned_kind kind)
{
    return kinds[kind].name;
}

bool
slam_canned_has_answer(enum slam_canned_kind kind)
{
    return kinds[kind].response != 0;
}

bool
slam_canned_is_load(enum slam_canned_kind kind)
{
    return slam_canned_has_answer(kind) && kind != SLAM_CANNED_START_TLS;
}

/* Whether the ExtendedRequest [op, op + len) asks for StartTLS. */
static bool
is_start_tls(const uint8_t *op, size_t len)
{
    const size_t name_len = sizeof(start_tls_name) - 1;
    size_t content_len;
    uint8_t tag;
    int header_len = slam_ber_read_header(op, len, &tag, &content_len);

    return header_len > 0 && len - (size_t)header_len >= name_len &&
           memcmp(op + header_len, start_tls_name, name_len) == 0;
}

int
slam_canned_parse(const uint8_t *bytes, size_t len, struct slam_canned_request *request)
{
    size_t content_len = 0;
    uint32_t id = 0;
    uint8_t tag;

    if (len > 0 && bytes[0] != SLAM_BER_SEQUENCE)
        return -1;
    int header_len = slam_ber_read_header(bytes, len, &tag, &content_len);
    if (header_len <= 0)
        return header_len;
    size_t head_len = (size_t)header_len;
    if (content_len > SLAM_CANNED_REQUEST_MAX - head_len)
        return -1;
    if (len - head_len < content_len)
        return 0;
    const uint8_t *content = bytes + head_len;
    size_t id_len = content_len < 4 ? 0 : content[1];
    if (id_len < 1 || id_len > ID_BYTES_MAX || content[0] != SLAM_BER_INTEGER ||
        content_len < 4 + id_len) {
        return -1;
    }
    for (size_t i = 0; i < id_len; i++)
        id = id << 8 | content[2 + i];
    const uint8_t *op = content + 2 + id_len;
    for (int kind = 0; kind < SLAM_CANNED_START_TLS; kind++) {
        if (kinds[kind].request == op[0]) {
            request->kind = (enum slam_canned_kind)kind;
            if (kind == SLAM_CANNED_EXTENDED &&
                is_start_tls(op, content_len - 2 - id_len))
                request->kind = SLAM_CANNED_START_TLS;
            request->message_id = (int32_t)id;
            request->len = head_len + content_len;
            return 1;
        }
    }
    return -1;
}

static uint8_t *
put_message(uint8_t *at, int32_t message_id, const uint8_t *op, size_t op_len)
{
    size_t id_len = slam_ber_integer_len((uint32_t)message_id);

    at = slam_ber_put_header(at, SLAM_BER_SEQUENCE, 2 + id_len + op_len);
    at = slam_ber_put_message_id(at, message_id);
    memcpy(at, op, op_len);
    return at + op_len;
}

size_t
slam_canned_answer(enum slam_canned_kind kind, int32_t message_id, uint8_t *out)
{
    /* LDAPResult: the code, empty matchedDN, empty diagnosticMessage */
    const uint8_t result_op[] = {
        kinds[kind].response,  7, SLAM_BER_ENUMERATED,   1, kinds[kind].result_code,
        SLAM_BER_OCTET_STRING, 0, SLAM_BER_OCTET_STRING, 0};
    uint8_t *at = out;

    if (kind == SLAM_CANNED_SEARCH)
        at = put_message(at, message_id, entry_op, sizeof(entry_op) - 1);
    at = put_message(at, message_id, result_op, sizeof(result_op));
    return (size_t)(at - out);
}
