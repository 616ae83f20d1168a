/* SPDX-License-Identifier: Apache-2.0 */
#include "core/slam_err.h"
#include "template/op_internal.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG_NUMBER_MASK 0x1fu

/* A TLV's header at its longest: tag, 0x83, three bytes of length. */
#define HEADER_MAX 5u
_Static_assert(SLAM_OP_MAX_PDU < (1u << 24), "lengths are written in up to 3 bytes");

/* What the engine puts before the program's bytes: SEQUENCE, messageID. */
#define ENVELOPE_MAX (HEADER_MAX + 6u)

/* A program is not much longer than the PDU that it makes. */
#define PROGRAM_MAX (4 * SLAM_OP_MAX_PDU)

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
    size_t chance_count;
    size_t depth;
    uint32_t open[SLAM_OP_MAX_DEPTH];    /* the OP_OPEN or OP_CHANCE of each level */
    size_t max_lens[SLAM_OP_MAX_VALUES]; /* of the values so far */
};

/* Adds to the PDU's bound; false when it passes SLAM_OP_MAX_PDU. */
static bool
grow(struct slam_op *op, size_t bytes)
{
    op->max_pdu += bytes;
    return op->max_pdu <= SLAM_OP_MAX_PDU;
}

static const char *
compile_literal(struct compilation *c, struct reader *r, struct instruction *in)
{
    uint32_t len;

    if (!read_little_endian(r, 4, &len) || (size_t)(r->end - r->at) < (size_t)len)
        return "the literal is longer than the program";
    if (!grow(c->op, len))
        return "the request is too long";
    in->at.offset = (uint32_t)c->literals_len;
    in->is.len = len;
    memcpy(c->op->literals + c->literals_len, r->at, len);
    c->literals_len += len;
    r->at += len;
    return NULL;
}

static const char *
compile_value(struct compilation *c, struct reader *r, struct instruction *in)
{
    struct slam_op *op = c->op;
    struct slam_value_source *src;
    uint32_t index;
    size_t len;

    if (!read_little_endian(r, 2, &index) || index >= op->source_count)
        return "there is no such value source";
    if (c->value_count == SLAM_OP_MAX_VALUES)
        return "there are too many values";
    src = &op->sources[index];
    len = src->max_len;
    if (src->kind == SLAM_VALUE_REF) {
        if ((uint64_t)src->lo >= c->value_count)
            return "the reference is to no earlier value";
        len = c->max_lens[src->lo];
        if (src->hi > 0 && (size_t)src->hi < len)
            len = (size_t)src->hi;
    }
    if ((src->kind == SLAM_VALUE_VARIABLE || src->kind == SLAM_VALUE_PARENT) &&
        src->lo >= (int64_t)op->variable_count)
        op->variable_count = (uint32_t)src->lo + 1;
    in->source = (uint16_t)index;
    in->ordinal = (uint16_t)c->value_count;
    c->max_lens[c->value_count++] = len;
    if (src->kind != SLAM_VALUE_REF)
        op->scratch_len += len;
    return grow(op, len) ? NULL : "the request is too long";
}

static const char *
compile_open(struct compilation *c, struct reader *r, struct instruction *in)
{
    uint32_t operand;

    if (in->code == OP_OPEN) {
        if (!read_little_endian(r, 1, &operand))
            return "the tag is missing";
        if ((operand & TAG_NUMBER_MASK) == TAG_NUMBER_MASK)
            return "tags of several bytes are not supported";
        in->tag = (uint8_t)operand;
        c->op->has_tlvs = true;
        if (!grow(c->op, HEADER_MAX))
            return "the request is too long";
    } else {
        if (!read_little_endian(r, 4, &operand) || operand > SLAM_OP_CERTAIN_PPM)
            return "a probability is 0 to 1000000 millionths";
        in->is.ppm = operand;
        if (c->chance_count == SLAM_OP_MAX_CHANCES)
            return "there are too many optional parts";
        in->ordinal = (uint16_t)c->chance_count++;
    }
    if (c->depth == SLAM_OP_MAX_DEPTH)
        return "TLVs are nested too deep";
    c->open[c->depth++] = (uint32_t)c->op->instruction_count;
    return NULL;
}

static const char *
compile_close(struct compilation *c, struct instruction *in)
{
    const bool is_tlv = in->code == OP_CLOSE;
    struct instruction *opened;

    if (c->depth == 0)
        return is_tlv ? "no TLV is open" : "no optional part is open";
    in->at.peer = c->open[--c->depth];
    opened = &c->op->instructions[in->at.peer];
    if ((opened->code == OP_OPEN) != is_tlv)
        return "TLVs and optional parts overlap";
    if (!is_tlv) {
        opened->at.peer = (uint32_t)c->op->instruction_count;
        in->ordinal = opened->ordinal;
    }
    return NULL;
}

/* Compiles one instruction. Returns NULL, or what is wrong with it. */
static const char *
compile_instruction(struct compilation *c, struct reader *r)
{
    struct instruction *in = &c->op->instructions[c->op->instruction_count];
    const char *fault;

    in->code = *r->at++;
    switch (in->code) {
    case OP_LITERAL:
        fault = compile_literal(c, r, in);
        break;
    case OP_VALUE:
        fault = compile_value(c, r, in);
        break;
    case OP_OPEN:
    case OP_CHANCE:
        fault = compile_open(c, r, in);
        break;
    case OP_CLOSE:
    case OP_END:
        fault = compile_close(c, in);
        break;
    default:
        return "unknown instruction";
    }
    if (!fault && (in->code != OP_LITERAL || in->is.len > 0))
        c->op->instruction_count++;
    return fault;
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
               struct slam_feeds *feeds, struct slam_op **op_out, char *err,
               size_t err_len)
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
    for (; op->source_count < source_count; op->source_count++) {
        struct slam_value_source *src = &op->sources[op->source_count];

        *src = sources[op->source_count];
        rc = slam_value_source_prepare(src, feeds, err, err_len);
        if (rc != SLAM_OK)
            goto refused;
    }
    rc = compile(op, program, program_len, err, err_len);
    if (rc == SLAM_OK) {
        *op_out = op;
        return rc;
    }
    goto refused;
out:
    snprintf(err, err_len, "no memory for a request template");
refused:
    slam_op_destroy(op);
    return rc;
}

void
slam_op_destroy(struct slam_op *op)
{
    if (op != NULL) {
        free(op->instructions);
        free(op->literals);
        for (size_t i = 0; i < op->source_count; i++)
            slam_value_source_release(&op->sources[i]);
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
slam_op_max_text(const struct slam_op *op)
{
    return op->has_tlvs ? SIZE_MAX : op->max_pdu - ENVELOPE_MAX;
}

uint32_t
slam_op_variable_count(const struct slam_op *op)
{
    return op->variable_count;
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
