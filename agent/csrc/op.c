/* SPDX-License-Identifier: Apache-2.0 */
#include "op.h"

#include "slam_err.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG_SEQUENCE 0x30u
#define TAG_INTEGER 0x02u
#define TAG_NUMBER_MASK 0x1fu

/* A TLV's header at its longest: tag, 0x83, three bytes of length. */
#define HEADER_MAX 5u
_Static_assert(SLAM_OP_MAX_PDU < (1u << 24), "lengths are written in up to 3 bytes");

/* What the engine puts before the program's bytes: SEQUENCE, messageID. */
#define ENVELOPE_MAX (HEADER_MAX + 6u)

/* A program is not much longer than the PDU that it makes. */
#define PROGRAM_MAX (4 * SLAM_OP_MAX_PDU)

enum opcode { OP_LITERAL = 0x01, OP_VALUE = 0x02, OP_OPEN = 0x03, OP_CLOSE = 0x04 };

struct instruction {
    uint8_t code; /* an enum opcode */
    uint8_t tag;  /* OP_OPEN */
    uint16_t source;
    uint32_t offset; /* OP_LITERAL: its bytes are literals[offset, offset + len) */
    uint32_t len;
};

struct slam_op {
    size_t instruction_count;
    size_t source_count;
    size_t max_pdu;
    size_t scratch_len;
    struct instruction *instructions;
    struct slam_value_source *sources;
    uint8_t *literals;
};

/* Reads the program; every length is checked before it is used. */
struct reader {
    const uint8_t *at;
    const uint8_t *end;
};

static bool
read_little_endian(struct reader *r, unsigned int bytes, uint32_t *value)
{
    if ((size_t)(r->end - r->at) < bytes)
        return false;
    *value = 0;
    for (unsigned int i = 0; i < bytes; i++)
        *value |= (uint32_t)r->at[i] << (8 * i);
    r->at += bytes;
    return true;
}

/* What is known of the program so far. */
struct compilation {
    struct slam_op *op;
    size_t literals_len;
    size_t value_count;
    size_t depth;
};

/* Adds to the PDU's bound; false when it passes SLAM_OP_MAX_PDU. */
static bool
grow(struct slam_op *op, size_t bytes)
{
    op->max_pdu += bytes;
    return op->max_pdu <= SLAM_OP_MAX_PDU;
}

/* Compiles one instruction. Returns NULL, or what is wrong with it. */
static const char *
compile_instruction(struct compilation *c, struct reader *r)
{
    struct slam_op *op = c->op;
    struct instruction *in = &op->instructions[op->instruction_count];
    uint32_t operand;

    in->code = *r->at++;
    switch (in->code) {
    case OP_LITERAL:
        if (!read_little_endian(r, 4, &operand) ||
            (size_t)(r->end - r->at) < (size_t)operand) {
            return "the literal is longer than the program";
        }
        if (operand == 0)
            return NULL;
        if (!grow(op, operand))
            return "the request is too long";
        in->offset = (uint32_t)c->literals_len;
        in->len = operand;
        memcpy(op->literals + c->literals_len, r->at, operand);
        c->literals_len += operand;
        r->at += operand;
        break;
    case OP_VALUE:
        if (!read_little_endian(r, 2, &operand) || operand >= op->source_count)
            return "there is no such value source";
        if (++c->value_count > SLAM_OP_MAX_VALUES)
            return "there are too many values";
        in->source = (uint16_t)operand;
        size_t len = slam_value_max_len(&op->sources[operand]);
        op->scratch_len += len;
        if (!grow(op, len))
            return "the request is too long";
        break;
    case OP_OPEN:
        if (!read_little_endian(r, 1, &operand))
            return "the tag is missing";
        if ((operand & TAG_NUMBER_MASK) == TAG_NUMBER_MASK)
            return "tags of several bytes are not supported";
        if (++c->depth > SLAM_OP_MAX_DEPTH)
            return "TLVs are nested too deep";
        if (!grow(op, HEADER_MAX))
            return "the request is too long";
        in->tag = (uint8_t)operand;
        break;
    case OP_CLOSE:
        if (c->depth == 0)
            return "no TLV is open";
        c->depth--;
        break;
    default:
        return "unknown instruction";
    }
    op->instruction_count++;
    return NULL;
}

static int
compile(struct slam_op *op, const uint8_t *program, size_t program_len, char *err,
        size_t err_len)
{
    struct compilation c = {.op = op};
    struct reader r = {.at = program, .end = program + program_len};

    op->max_pdu = ENVELOPE_MAX;
    while (r.at < r.end) {
        size_t offset = (size_t)(r.at - program);
        const char *fault = compile_instruction(&c, &r);

        if (fault != NULL) {
            snprintf(err, err_len, "bad request template at byte %zu: %s", offset,
                     fault);
            return SLAM_EINVAL;
        }
    }
    if (c.depth != 0) {
        snprintf(err, err_len, "bad request template: %zu TLVs are not closed",
                 c.depth);
        return SLAM_EINVAL;
    }
    if (op->instruction_count == 0) {
        snprintf(err, err_len, "bad request template: it is empty");
        return SLAM_EINVAL;
    }
    return SLAM_OK;
}

int
slam_op_create(const uint8_t *program, size_t program_len,
               const struct slam_value_source *sources, size_t source_count,
               struct slam_op **op_out, char *err, size_t err_len)
{
    struct slam_op *op = NULL;
    int rc;

    if (program_len == 0 || program_len > PROGRAM_MAX) {
        snprintf(err, err_len, "a request template has 1 to %u bytes, got %zu",
                 PROGRAM_MAX, program_len);
        return SLAM_EINVAL;
    }
    if (source_count > SLAM_OP_MAX_VALUES) {
        snprintf(err, err_len, "a request has at most %u value sources, got %zu",
                 SLAM_OP_MAX_VALUES, source_count);
        return SLAM_EINVAL;
    }
    for (size_t i = 0; i < source_count; i++) {
        rc = slam_value_source_check(&sources[i], err, err_len);
        if (rc != SLAM_OK)
            return rc;
    }

    rc = SLAM_ENOMEM;
    op = calloc(1, sizeof(*op));
    if (op == NULL)
        goto out;
    /* The program's length bounds its instructions and its literals. */
    op->instructions = calloc(program_len, sizeof(*op->instructions));
    op->literals = malloc(program_len);
    op->sources = calloc(source_count + 1, sizeof(*op->sources));
    if (op->instructions == NULL || op->literals == NULL || op->sources == NULL)
        goto out;
    if (source_count > 0)
        memcpy(op->sources, sources, source_count * sizeof(*sources));
    op->source_count = source_count;
    rc = compile(op, program, program_len, err, err_len);
    if (rc == SLAM_OK) {
        *op_out = op;
        op = NULL;
    }
out:
    if (rc == SLAM_ENOMEM)
        snprintf(err, err_len, "no memory for a request template");
    slam_op_destroy(op);
    return rc;
}

void
slam_op_destroy(struct slam_op *op)
{
    if (op != NULL) {
        free(op->instructions);
        free(op->literals);
        free(op->sources);
        free(op);
    }
}

size_t
slam_op_max_pdu(const struct slam_op *op)
{
    return op->max_pdu;
}

size_t
slam_op_scratch_len(const struct slam_op *op)
{
    return op->scratch_len;
}

size_t
slam_op_source_count(const struct slam_op *op)
{
    return op->source_count;
}

const struct slam_value_source *
slam_op_source(const struct slam_op *op, size_t index)
{
    return &op->sources[index];
}

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

size_t
slam_op_encode(const struct slam_op *op, struct slam_value_state *states,
               struct slam_rng *rng, char *scratch, int32_t message_id, uint8_t *end)
{
    uint32_t lens[SLAM_OP_MAX_VALUES]; /* of the values' texts, in order */
    const uint8_t *closed[SLAM_OP_MAX_DEPTH];
    size_t values = 0;
    size_t depth = 0;
    char *text = scratch;
    uint8_t *at = end;

    for (size_t i = 0; i < op->instruction_count; i++) {
        const struct instruction *in = &op->instructions[i];

        if (in->code == OP_VALUE) {
            size_t len = slam_value_emit(&op->sources[in->source], &states[in->source],
                                         rng, text);
            lens[values++] = (uint32_t)len;
            text += len;
        }
    }
    for (size_t i = op->instruction_count; i-- > 0;) {
        const struct instruction *in = &op->instructions[i];

        switch (in->code) {
        case OP_LITERAL:
            at -= in->len;
            memcpy(at, op->literals + in->offset, in->len);
            break;
        case OP_VALUE:
            text -= lens[--values];
            at -= lens[values];
            memcpy(at, text, lens[values]);
            break;
        case OP_CLOSE:
            closed[depth++] = at;
            break;
        default:
            at = put_header(at, closed[--depth], in->tag);
            break;
        }
    }
    at = put_integer(at, (uint32_t)message_id);
    at = put_header(at, end, TAG_SEQUENCE);
    return (size_t)(end - at);
}
