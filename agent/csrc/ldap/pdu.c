/* SPDX-License-Identifier: Apache-2.0 */
#include "ldap/pdu.h"

#include "core/ber.h"
#include "core/slam_err.h"

#include <string.h>

enum { HEAD_INVALID = -1, HEAD_SHORT = 0, HEAD_OK = 1 };

struct cursor {
    const uint8_t *data;
    size_t len;
    size_t pos;
};

static int
read_header(struct cursor *c, uint8_t *tag, size_t *content_len)
{
    int bytes =
        slam_ber_read_header(c->data + c->pos, c->len - c->pos, tag, content_len);

    if (bytes <= 0)
        return bytes < 0 ? HEAD_INVALID : HEAD_SHORT;
    c->pos += (size_t)bytes;
    return HEAD_OK;
}

/* Reads a non-negative INTEGER or ENUMERATED, at most 4 octets, before `limit`. */
static int
read_integer(struct cursor *c, uint8_t expected_tag, size_t limit, int32_t *value)
{
    uint8_t tag = 0;
    size_t len = 0;
    uint32_t v = 0;
    int rc = read_header(c, &tag, &len);

    if (rc != HEAD_OK)
        return rc;
    if (tag != expected_tag || len < 1 || len > 4 || c->pos > limit ||
        limit - c->pos < len)
        return HEAD_INVALID;
    if (c->len - c->pos < len)
        return HEAD_SHORT;
    if (c->data[c->pos] & 0x80u)
        return HEAD_INVALID;
    for (size_t i = 0; i < len; i++)
        v = (v << 8) | c->data[c->pos++];
    *value = (int32_t)v;
    return HEAD_OK;
}

static int
has_result_code(uint8_t tag)
{
    return tag == SLAM_PDU_BIND_RESPONSE || tag == SLAM_PDU_SEARCH_DONE ||
           tag == SLAM_PDU_MODIFY_RESPONSE || tag == SLAM_PDU_ADD_RESPONSE ||
           tag == SLAM_PDU_DELETE_RESPONSE || tag == SLAM_PDU_MODIFY_DN_RESPONSE ||
           tag == SLAM_PDU_COMPARE_RESPONSE || tag == SLAM_PDU_EXTENDED_RESPONSE;
}

static int
is_response(uint8_t tag)
{
    return has_result_code(tag) || tag == SLAM_PDU_SEARCH_ENTRY ||
           tag == SLAM_PDU_SEARCH_REFERENCE || tag == SLAM_PDU_INTERMEDIATE_RESPONSE;
}

/* Parses the head of a message. HEAD_SHORT: more bytes are needed to tell. */
static int
parse_head(const uint8_t *data, size_t len, size_t max_pdu_bytes, struct slam_pdu *pdu)
{
    struct cursor c = {.data = data, .len = len, .pos = 0};
    uint8_t tag = 0;
    size_t content = 0;
    size_t end;
    size_t op_end;
    int rc;

    if (len > 0 && data[0] != SLAM_BER_SEQUENCE) {
        return HEAD_INVALID;
    }
    rc = read_header(&c, &tag, &content);
    if (rc != HEAD_OK) {
        return rc;
    }
    if (content > max_pdu_bytes || c.pos + content > max_pdu_bytes) {
        return HEAD_INVALID;
    }
    end = c.pos + content;
    if (content < 3)
        return HEAD_INVALID;
    rc = read_integer(&c, SLAM_BER_INTEGER, end, &pdu->message_id);
    if (rc != HEAD_OK)
        return rc;
    if (end - c.pos < 2)
        return HEAD_INVALID; /* no header fits, however many bytes follow */
    rc = read_header(&c, &tag, &content);
    if (rc != HEAD_OK)
        return rc;
    if (c.pos > end || end - c.pos < content)
        return HEAD_INVALID;
    if (!is_response(tag)) {
        return HEAD_INVALID;
    }
    op_end = c.pos + content;
    pdu->tag = tag;
    pdu->len = end;
    pdu->result_code = -1;
    if (has_result_code(tag)) {
        if (content < 3)
            return HEAD_INVALID;
        return read_integer(&c, SLAM_BER_ENUMERATED, op_end, &pdu->result_code);
    }
    return HEAD_OK;
}

void
slam_pdu_parser_init(struct slam_pdu_parser *parser, size_t max_pdu_bytes)
{
    parser->max_pdu_bytes = max_pdu_bytes;
    parser->skip = 0;
    parser->head_len = 0;
}

/* Passes over the body; returns 1 when the message's last byte has passed. */
static int
pass_body(struct slam_pdu_parser *parser, const uint8_t **data, size_t *len,
          struct slam_pdu *pdu)
{
    size_t n = parser->skip < *len ? parser->skip : *len;

    *data += n;
    *len -= n;
    parser->skip -= n;
    if (parser->skip > 0)
        return 0;
    *pdu = parser->pdu;
    return 1;
}

int
slam_pdu_next(struct slam_pdu_parser *parser, const uint8_t **data, size_t *len,
              struct slam_pdu *pdu)
{
    const uint8_t *head = *data;
    size_t head_len = *len;
    size_t kept = parser->head_len;
    int rc;

    if (parser->skip > 0)
        return pass_body(parser, data, len, pdu);
    if (*len == 0)
        return 0;
    if (kept > 0) {
        /* the head began in an earlier read: complete it in the parser's own buffer */
        size_t n = SLAM_PDU_HEAD_MAX - kept;

        n = n < *len ? n : *len;
        memcpy(parser->head + kept, *data, n);
        head = parser->head;
        head_len = kept + n;
    }
    rc = parse_head(head, head_len, parser->max_pdu_bytes, &parser->pdu);
    if (rc == HEAD_INVALID)
        return SLAM_EINVAL;
    if (rc == HEAD_SHORT) {
        if (head_len >= SLAM_PDU_HEAD_MAX) {
            return SLAM_EINVAL;
        }
        if (kept == 0)
            memcpy(parser->head, head, head_len);
        parser->head_len = head_len;
        *data += *len;
        *len = 0;
        return 0;
    }
    /* the kept bytes belong to this message and have passed already */
    parser->head_len = 0;
    parser->skip = parser->pdu.len - kept;
    return pass_body(parser, data, len, pdu);
}
