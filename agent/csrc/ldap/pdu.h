/* SPDX-License-Identifier: Apache-2.0 */
/* Splits a directory's bytes into LDAPMessages (RFC 4511 4.1.1) without keeping them:
 * the head (envelope, messageID, operation, result code) has at most SLAM_PDU_HEAD_MAX
 * bytes, the rest is skipped. The input is hostile: each length is checked against the
 * one around it. Pure; one parser per connection. */
#ifndef SLAM_PDU_H
#define SLAM_PDU_H

#include <stddef.h>
#include <stdint.h>

/* 1 + 5 envelope, 2 + 4 messageID, 1 + 5 operation, 2 + 4 result code */
#define SLAM_PDU_HEAD_MAX 24u

enum slam_pdu_tag {
    SLAM_PDU_BIND_RESPONSE = 0x61,
    SLAM_PDU_SEARCH_ENTRY = 0x64,
    SLAM_PDU_SEARCH_DONE = 0x65,
    SLAM_PDU_MODIFY_RESPONSE = 0x67,
    SLAM_PDU_ADD_RESPONSE = 0x69,
    SLAM_PDU_DELETE_RESPONSE = 0x6b,
    SLAM_PDU_MODIFY_DN_RESPONSE = 0x6d,
    SLAM_PDU_COMPARE_RESPONSE = 0x6f,
    SLAM_PDU_SEARCH_REFERENCE = 0x73,
    SLAM_PDU_EXTENDED_RESPONSE = 0x78,
    SLAM_PDU_INTERMEDIATE_RESPONSE = 0x79
};

struct slam_pdu {
    int32_t message_id;  /* 0: unsolicited notification */
    uint8_t tag;         /* of the operation, an enum slam_pdu_tag */
    int32_t result_code; /* -1 where the operation has none */
    size_t len;          /* of the whole message, in bytes */
};

struct slam_pdu_parser {
    size_t max_pdu_bytes;
    size_t skip;     /* bytes of the current message still to pass */
    size_t head_len; /* bytes kept in head, while the head is incomplete */
    struct slam_pdu pdu;
    uint8_t head[SLAM_PDU_HEAD_MAX];
};

void slam_pdu_parser_init(struct slam_pdu_parser *parser, size_t max_pdu_bytes);

/* Consumes bytes up to the end of the next message, advancing *data and *len. Returns 1
 * and *pdu when the message's last byte has passed, 0 when all bytes are consumed
 * before. A negative slam_err: this is no message for a client, or longer than
 * max_pdu_bytes; *reason is a constant text, and the parser needs
 * slam_pdu_parser_init. */
int slam_pdu_next(struct slam_pdu_parser *parser, const uint8_t **data, size_t *len,
                  struct slam_pdu *pdu);

#endif
