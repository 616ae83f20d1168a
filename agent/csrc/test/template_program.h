/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of templates: programs written instruction by instruction, and requests
 * encoded into memory of exactly the sizes that were promised. */
#ifndef SLAM_TEMPLATE_PROGRAM_H
#define SLAM_TEMPLATE_PROGRAM_H

#include "core/slam_err.h"
#include "template/template.h"

#include <stdlib.h>
#include <string.h>

/* A program under construction. */
struct program {
    uint8_t bytes[SLAM_TEMPLATE_PDU_MAX * 2];
    size_t len;
};

static struct program p;
static char err[SLAM_ERR_LEN];
static const uint8_t a[] = "a";
static struct slam_rng rng;
static const struct slam_partition alone = {
    .first = 0, .step = 1, .count = 1, .total = 1};
static struct slam_variable variables[2];
static const struct slam_draw draw = {
    .rng = &rng, .partition = &alone, .variables = variables};

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
end_part(void)
{
    p.bytes[p.len++] = 0x04;
}

static inline struct slam_template *
create(const struct slam_value_source *sources, size_t source_count)
{
    struct slam_template *op = NULL;

    const struct slam_template_config config = {.program = p.bytes,
                                                .program_len = p.len,
                                                .sources = sources,
                                                .source_count = source_count};

    slam_template_create(&config, NULL, &op, err);
    p.len = 0;
    return op;
}

/* Encodes to a fresh buffer of exactly the promised size, so that a sanitizer sees a
 * byte too many. Returns the buffer. */
static inline uint8_t *
encode(const struct slam_template *op, struct slam_partition_cursor *states,
       int32_t message_id, size_t *len)
{
    uint8_t *buf = malloc(slam_template_max_pdu(op));

    *len = slam_template_encode(op, states, &draw, message_id, buf);
    return buf;
}

#endif
