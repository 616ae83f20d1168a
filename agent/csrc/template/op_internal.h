/* SPDX-License-Identifier: Apache-2.0 */
/* A compiled template, shared by op.c (which makes it) and op_encode.c alone. */
#ifndef SLAM_OP_INTERNAL_H
#define SLAM_OP_INTERNAL_H

#include "template/op.h"

#include <stdbool.h>

#define SLAM_OP_CERTAIN_PPM 1000000u

enum opcode {
    OP_LITERAL = 0x01,
    OP_VALUE = 0x02,
    OP_OPEN = 0x03,
    OP_CLOSE = 0x04,
    OP_CHANCE = 0x05,
    OP_END = 0x06
};

struct instruction {
    uint8_t code;     /* an enum opcode */
    uint8_t tag;      /* OP_OPEN */
    uint16_t source;  /* OP_VALUE */
    uint16_t ordinal; /* OP_VALUE: values before it; OP_CHANCE, OP_END: parts before */
    union {
        uint32_t offset; /* OP_LITERAL: its bytes are literals[offset, offset + len) */
        uint32_t peer;   /* OP_CHANCE, OP_END: index of the other one */
    } at;
    union {
        uint32_t len;
        uint32_t ppm; /* OP_CHANCE */
    } is;
};

struct slam_op {
    size_t instruction_count;
    size_t source_count;
    size_t max_pdu;
    size_t scratch_len;
    uint32_t variable_count;
    bool has_tlvs;
    struct instruction *instructions;
    struct slam_value_source *sources;
    uint8_t *literals;
};

#endif
