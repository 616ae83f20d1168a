/* SPDX-License-Identifier: Apache-2.0 */
/* The hot path of op.h: from a compiled template to one request. */
#include "template/op_internal.h"

#include <string.h>

#define TAG_SEQUENCE 0x30u
#define TAG_INTEGER 0x02u

/* Writes a TLV's tag and length (X.690 8.1.3, fewest bytes) before its content, which
 * is [at, end). Returns the header's first byte. */
static uint8_t *
put_header(uint8_t *at, const uint8_t *end, uint8_t tag)
{
    size_t len = (size_t)(end - at);

    if (len < 0x80) {
        *--at = (uint8_t)len;
    } else {
        uint8_t bytes = 0;

        for (; len > 0; len >>= 8) {
            *--at = (uint8_t)len;
            bytes++;
        }
        *--at = (uint8_t)(0x80u | bytes);
    }
    *--at = tag;
    return at;
}

/* Writes a non-negative INTEGER before `at`: fewest bytes, the first below 0x80. */
static uint8_t *
put_integer(uint8_t *at, uint32_t value)
{
    const uint8_t *end = at;

    *--at = (uint8_t)value;
    while (value > 0x7f) {
        value >>= 8;
        *--at = (uint8_t)value;
    }
    return put_header(at, end, TAG_INTEGER);
}

/* What was drawn for one request; by ordinal. */
struct draws {
    const char *text[SLAM_OP_MAX_VALUES];
    uint32_t len[SLAM_OP_MAX_VALUES];
    bool absent[SLAM_OP_MAX_CHANCES];
};

/* Draws the part from instruction i on, which is an OP_CHANCE. Returns the instruction
 * before the next one to draw. */
static size_t
draw_chance(const struct slam_op *op, size_t i, struct slam_rng *rng, struct draws *d)
{
    const struct instruction *in = &op->instructions[i];
    bool absent = slam_rng_below(rng, SLAM_OP_CERTAIN_PPM) >= in->is.ppm;

    d->absent[in->ordinal] = absent;
    if (!absent)
        return i;
    for (; i < in->at.peer; i++) {
        const struct instruction *skipped = &op->instructions[i];

        if (skipped->code == OP_VALUE) {
            d->text[skipped->ordinal] = "";
            d->len[skipped->ordinal] = 0;
        }
    }
    return i;
}

static void
draw_values(const struct slam_op *op, struct slam_value_state *states,
            const struct slam_draw *draw, char *scratch, struct draws *d)
{
    for (size_t i = 0; i < op->instruction_count; i++) {
        const struct instruction *in = &op->instructions[i];
        const struct slam_value_source *src;

        if (in->code == OP_CHANCE)
            i = draw_chance(op, i, draw->rng, d);
        if (in->code != OP_VALUE)
            continue;
        src = &op->sources[in->source];
        if (src->kind == SLAM_VALUE_REF) {
            d->text[in->ordinal] = d->text[src->lo];
            d->len[in->ordinal] =
                slam_value_cut(d->text[src->lo], d->len[src->lo], src->hi);
        } else {
            size_t len = slam_value_emit(src, &states[in->source], draw, scratch);

            d->text[in->ordinal] = scratch;
            d->len[in->ordinal] = (uint32_t)len;
            scratch += len;
        }
    }
}

size_t
slam_op_encode(const struct slam_op *op, struct slam_value_state *states,
               const struct slam_draw *draw, char *scratch, int32_t message_id,
               uint8_t *end)
{
    struct draws d;
    const uint8_t *closed[SLAM_OP_MAX_DEPTH];
    size_t depth = 0;
    uint8_t *at = end;

    draw_values(op, states, draw, scratch, &d);
    for (size_t i = op->instruction_count; i-- > 0;) {
        const struct instruction *in = &op->instructions[i];

        switch (in->code) {
        case OP_LITERAL:
            at -= in->is.len;
            memcpy(at, op->literals + in->at.offset, in->is.len);
            break;
        case OP_VALUE:
            at -= d.len[in->ordinal];
            memcpy(at, d.text[in->ordinal], d.len[in->ordinal]);
            break;
        case OP_CLOSE:
            closed[depth++] = at;
            break;
        case OP_OPEN:
            at = put_header(at, closed[--depth], in->tag);
            break;
        case OP_END:
            if (d.absent[in->ordinal])
                i = in->at.peer;
            break;
        default:
            break;
        }
    }
    at = put_integer(at, (uint32_t)message_id);
    at = put_header(at, end, TAG_SEQUENCE);
    return (size_t)(end - at);
}

size_t
slam_op_text(const struct slam_op *op, struct slam_value_state *states,
             const struct slam_draw *draw, char *scratch, uint8_t *out, size_t cap)
{
    struct draws d;
    size_t len = 0;

    draw_values(op, states, draw, scratch, &d);
    for (size_t i = 0; i < op->instruction_count; i++) {
        const struct instruction *in = &op->instructions[i];
        const void *piece = NULL;
        size_t piece_len = 0;

        if (in->code == OP_LITERAL) {
            piece = op->literals + in->at.offset;
            piece_len = in->is.len;
        } else if (in->code == OP_VALUE) {
            piece = d.text[in->ordinal];
            piece_len = d.len[in->ordinal];
        } else if (in->code == OP_CHANCE && d.absent[in->ordinal]) {
            i = in->at.peer;
        }
        if (piece_len > cap - len)
            return (size_t)-1;
        if (piece_len > 0)
            memcpy(out + len, piece, piece_len);
        len += piece_len;
    }
    return len;
}
