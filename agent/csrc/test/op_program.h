/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of templates: programs written instruction by instruction, and requests
 * encoded into memory of exactly the sizes that were promised. */
#ifndef SLAM_OP_PROGRAM_H
#define SLAM_OP_PROGRAM_H

#include "template/op.h"

#include <stdlib.h>
#include <string.h>

/* A program under construction. */
struct program {
    uint8_t bytes[SLAM_OP_MAX_PDU * 2];
    size_t len;
};

static struct program p;
static char err[200];
static const uint8_t a[] = "a";
static struct slam_rng rng;
static const struct slam_share alone = {.first = 0, .step = 1, .count = 1, .total = 1};
static struct slam_variable variables[2];
static const struct slam_draw draw = {
    .rng = &rng, .share = &alone, .variables = variables};

static inline void
literal(const void *bytes, size_t len)
{
    uint8_t *at = p.bytes + p.len;

    at[0] = 0x01;
    for (unsigned int i = 0; i < 4; i++)
        at[1 + i] = (uint8_t)(len >> (8 * i));
    memcpy(at + 5, bytes, len);
    p.len += 5 + len;
}

static inline void
value(uint16_t source)
{
    uint8_t code[] = {0x02, (uint8_t)source, (uint8_t)(source >> 8)};

    memcpy(p.bytes + p.len, code, sizeof(code));
    p.len += sizeof(code);
}

static inline void
open_tlv(uint8_t tag)
{
    p.bytes[p.len++] = 0x03;
    p.bytes[p.len++] = tag;
}

static inline void
chance(uint32_t ppm)
{
    p.bytes[p.len++] = 0x05;
    for (unsigned int i = 0; i < 4; i++)
        p.bytes[p.len++] = (uint8_t)(ppm >> (8 * i));
}

static inline void
end_chance(void)
{
    p.bytes[p.len++] = 0x06;
}

static inline void
close_tlv(void)
{
    p.bytes[p.len++] = 0x04;
}

static inline struct slam_op *
create(const struct slam_value_source *sources, size_t source_count)
{
    struct slam_op *op = NULL;

    err[0] = '\0';
    slam_op_create(p.bytes, p.len, sources, source_count, NULL, &op, err, sizeof(err));
    p.len = 0;
    return op;
}

/* Encodes to the end of a fresh buffer of exactly the promised sizes, so that a
 * sanitizer sees a byte too many. Returns the buffer; the PDU is its last *len bytes.
 */
static inline uint8_t *
encode(const struct slam_op *op, struct slam_value_state *states, int32_t message_id,
       size_t *len)
{
    size_t max = slam_op_max_pdu(op);
    char *scratch = malloc(slam_op_scratch_len(op) + 1);
    uint8_t *buf = malloc(max);

    *len = slam_op_encode(op, states, &draw, scratch, message_id, buf + max);
    memmove(buf, buf + max - *len, *len);
    free(scratch);
    return buf;
}

#endif
