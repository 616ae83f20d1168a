/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the program of a node. Everything that rendering relies on is checked here:
 * operands, nesting, and the most bytes that each text may have. */
#include "core/slam_err.h"
#include "ldif/ldif_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM_MAX (16u << 20)
#define CERTAIN_PPM 1000000u
#define NUMBER_DIGITS 20u /* of a uint64_t */
#define ESCAPED_BYTES 3u  /* of a byte in a DN or a filter: \00 */

/* Reads the program; every length is checked before it is used. */
struct reader {
    const uint8_t *at;
    const uint8_t *end;
};

/* A part that is open. */
struct level {
    uint32_t instruction;
    bool is_text;
    bool is_plain; /* so far */
    size_t len;    /* the most so far */
};

struct compilation {
    struct ldif_tree *tree;
    struct ldif_node *node;
    struct reader reader;
    struct level levels[SLAM_LDIF_DEPTH_MAX];
    size_t depth;
    size_t literals_len;
    bool is_in_loop;
    bool has_body;
};

static bool
read_number(struct reader *r, unsigned int bytes, uint64_t *value)
{
    if ((size_t)(r->end - r->at) < bytes)
        return false;
    *value = 0;
    for (unsigned int i = 0; i < bytes; i++)
        *value |= (uint64_t)r->at[i] << (8 * i);
    r->at += bytes;
    return true;
}

/* Reads up to four numbers of the given sizes; ends with size 0. */
static bool
read_operands(struct reader *r, const unsigned int sizes[4], uint64_t values[4])
{
    for (unsigned int i = 0; i < 4 && sizes[i] != 0; i++) {
        if (!read_number(r, sizes[i], &values[i]))
            return false;
    }
    return true;
}

/* Adds to the text that is open. */
static const char *
extend(struct compilation *c, size_t len, bool plain)
{
    struct level *text = &c->levels[c->depth - 1];

    text->len += len;
    text->is_plain = text->is_plain && plain;
    return text->len <= SLAM_LDIF_LINE_MAX ? NULL : "a line may become too long";
}

static bool
is_in_text(const struct compilation *c)
{
    return c->depth > 0 && c->levels[c->depth - 1].is_text;
}

/* Takes bytes that the program has into the literals. */
static const char *
take_literal(struct compilation *c, struct ldif_instruction *in, uint64_t len)
{
    struct reader *r = &c->reader;

    if ((uint64_t)(r->end - r->at) < len)
        return "the text is longer than the program";
    in->offset = (uint32_t)c->literals_len;
    in->len = (uint32_t)len;
    memcpy(c->node->literals + c->literals_len, r->at, in->len);
    c->literals_len += in->len;
    r->at += in->len;
    return NULL;
}

static const char *
compile_literal(struct compilation *c, struct ldif_instruction *in)
{
    const uint8_t *text;
    uint64_t len;
    const char *fault;

    if (!read_number(&c->reader, 4, &len))
        return "an operand is missing";
    fault = take_literal(c, in, len);
    if (fault)
        return fault;
    text = c->node->literals + in->offset;
    if (memchr(text, '\n', in->len))
        return "a text has a line feed in it";
    return extend(c, in->len, ldif_is_plain(text, in->len));
}

static bool
is_in_turn(enum slam_value_kind kind)
{
    return kind == SLAM_VALUE_SEQUENCE || kind == SLAM_VALUE_FILE_SEQUENCE ||
           kind == SLAM_VALUE_UNIQUE;
}

static const char *
compile_value(struct compilation *c, struct ldif_instruction *in)
{
    const struct ldif_tree *tree = c->tree;
    const struct slam_value_source *source;
    uint64_t operands[4];

    if (!read_operands(&c->reader, (unsigned int[4]){2, 1}, operands))
        return "an operand is missing";
    if (operands[0] >= tree->source_count)
        return "there is no such value source";
    if (operands[1] > SLAM_LDIF_LAST)
        return "unknown place";
    in->index = (uint16_t)operands[0];
    in->variant = (uint8_t)operands[1];
    source = &tree->sources[in->index];
    if (is_in_turn(source->kind) != (in->variant != SLAM_LDIF_DRAWN))
        return "sources in turn, and no others, have a place";
    if ((in->variant == SLAM_LDIF_FIRST && in->index != tree->first_names) ||
        (in->variant == SLAM_LDIF_LAST && in->index != tree->last_names))
        return "this source has no names";
    return extend(c,
                  source->max_len + (in->variant == SLAM_LDIF_LAST ? NUMBER_DIGITS : 0),
                  tree->source_is_plain[in->index]);
}

static const char *
compile_slot(struct compilation *c, struct ldif_instruction *in)
{
    const struct ldif_node *node = c->node;
    const struct ldif_slot *slot;
    uint64_t operands[4];

    if (!read_operands(&c->reader, (unsigned int[4]){1, 2, 4, 1}, operands))
        return "an operand is missing";
    if (operands[0] > node->depth)
        return "there is no such ancestor";
    for (uint64_t i = 0; i < operands[0]; i++)
        node = &c->tree->nodes[node->parent];
    if (operands[1] >= node->slot_count || !node->slots[operands[1]].is_filled)
        return "the slot is not filled before";
    if (operands[3] > SLAM_LDIF_FILTER_FINAL)
        return "unknown form";
    slot = &node->slots[operands[1]];
    in->level = (uint8_t)operands[0];
    in->index = (uint16_t)operands[1];
    in->limit = (uint32_t)operands[2];
    in->variant = (uint8_t)operands[3];
    in->room = slot->cap;
    if (in->variant != SLAM_LDIF_PLAIN && in->variant != SLAM_LDIF_UNDERSCORES)
        in->room *= ESCAPED_BYTES;
    else if (in->limit > 0 && in->limit < in->room)
        in->room = in->limit;
    return extend(c, in->room, slot->is_plain);
}

static const char *
compile_flag(struct compilation *c, struct ldif_instruction *in)
{
    struct ldif_node *node = c->node;
    uint64_t operands[4] = {0};
    const unsigned int second =
        in->code == LDIF_CHANCE ? 4 : (in->code == LDIF_IF ? 1 : 0);

    if (!read_operands(&c->reader, (unsigned int[4]){2, second}, operands))
        return "an operand is missing";
    if (operands[0] >= SLAM_LDIF_SLOTS_MAX)
        return "there are too many flags";
    if (operands[1] > (in->code == LDIF_IF ? 1 : CERTAIN_PPM))
        return in->code == LDIF_IF ? "a flag is 0 or 1"
                                   : "a probability is 0 to 1000000 millionths";
    if (in->code != LDIF_IF && c->has_body)
        return "flags become 1 before the body";
    in->index = (uint16_t)operands[0];
    in->variant = (uint8_t)(operands[1] & 1);
    in->limit = (uint32_t)operands[1];
    if (in->index >= node->flag_count)
        node->flag_count = in->index + 1u;
    return NULL;
}

static const char *
compile_equal(struct compilation *c, struct ldif_instruction *in)
{
    uint64_t operands[4];

    if (!read_operands(&c->reader, (unsigned int[4]){2, 4}, operands))
        return "an operand is missing";
    if (operands[0] >= c->node->slot_count || !c->node->slots[operands[0]].is_filled)
        return "the slot is not filled before";
    in->index = (uint16_t)operands[0];
    return take_literal(c, in, operands[1]);
}

static const char *
compile_fill(struct compilation *c, struct ldif_instruction *in)
{
    uint64_t slot;

    if (!read_number(&c->reader, 2, &slot))
        return "an operand is missing";
    if (slot >= SLAM_LDIF_SLOTS_MAX)
        return "there are too many slots";
    if (slot < c->node->slot_count && c->node->slots[slot].is_filled)
        return "the slot is filled twice";
    if (c->has_body)
        return "slots are filled before the body";
    in->index = (uint16_t)slot;
    if (slot >= c->node->slot_count)
        c->node->slot_count = in->index + 1u;
    return NULL;
}

static const char *
compile_line(struct compilation *c, struct ldif_instruction *in)
{
    uint64_t len;

    if (!read_number(&c->reader, 2, &len))
        return "an operand is missing";
    if (!c->has_body)
        return "lines stand behind the body's beginning";
    return take_literal(c, in, len);
}

static const char *
compile_output(struct compilation *c, struct ldif_instruction *in)
{
    uint64_t output;

    if (!read_number(&c->reader, 1, &output))
        return "an operand is missing";
    if (output >= c->tree->output_count)
        return "there is no such output";
    if (!c->has_body)
        return "lines stand behind the body's beginning";
    in->variant = (uint8_t)output;
    return NULL;
}

static const char *
compile_loop(struct compilation *c, struct ldif_instruction *in)
{
    uint64_t operands[4];

    if (!read_operands(&c->reader,
                       (unsigned int[4]){8, 8, in->code == LDIF_PICK ? 8 : 0},
                       operands))
        return "an operand is missing";
    if (!c->has_body)
        return "loops stand behind the body's beginning";
    in->lo = operands[0];
    in->least = in->most = operands[1];
    if (in->code == LDIF_PICK) {
        in->most = operands[2];
        if (in->least > in->most || in->most > in->lo || in->lo > INT64_MAX)
            return "so many different numbers cannot be picked";
    } else if (in->least > UINT64_MAX - in->lo) {
        return "the loop's last number has more than 64 bits";
    }
    if (c->is_in_loop)
        return "a loop stands within a loop";
    c->is_in_loop = true;
    return NULL;
}

/* What ends with END. */
static const char *
compile_open(struct compilation *c, struct ldif_instruction *in)
{
    const bool is_text = in->code <= LDIF_OUTPUT;
    const char *fault = NULL;

    if (is_in_text(c) != (in->code == LDIF_BASE64))
        return "parts within text are no text";
    switch (in->code) {
    case LDIF_FILL:
        fault = compile_fill(c, in);
        break;
    case LDIF_LINE:
        fault = compile_line(c, in);
        break;
    case LDIF_OUTPUT:
        fault = compile_output(c, in);
        break;
    case LDIF_IF:
        fault = compile_flag(c, in);
        break;
    case LDIF_EQUAL:
        fault = compile_equal(c, in);
        break;
    case LDIF_LOOP:
    case LDIF_PICK:
        fault = compile_loop(c, in);
        break;
    default:
        break;
    }
    if (fault)
        return fault;
    if (c->depth == SLAM_LDIF_DEPTH_MAX)
        return "parts are nested too deep";
    c->levels[c->depth++] =
        (struct level){.instruction = (uint32_t)c->node->instruction_count,
                       .is_text = is_text,
                       .is_plain = true};
    return NULL;
}

static size_t
base64_len(size_t len)
{
    return (len + 2) / 3 * 4;
}

/* Room for a slot's text, once it is known how long that may be. */
static const char *
close_fill(struct compilation *c, const struct ldif_instruction *in,
           const struct level *text)
{
    struct ldif_node *node = c->node;

    if (text->len > SLAM_LDIF_SLOTS_LEN_MAX - node->slots_len)
        return "the texts that are kept are too long";
    node->slots[in->index] = (struct ldif_slot){.offset = node->slots_len,
                                                .cap = (uint32_t)text->len,
                                                .is_plain = text->is_plain,
                                                .is_filled = true};
    node->slots_len += (uint32_t)text->len;
    return NULL;
}

static const char *
compile_end(struct compilation *c, struct ldif_instruction *end)
{
    struct ldif_instruction *in;
    struct level level;
    size_t *max_room;

    if (c->depth == 0)
        return "nothing is open";
    level = c->levels[--c->depth];
    end->peer = level.instruction;
    in = &c->node->instructions[level.instruction];
    in->peer = (uint32_t)c->node->instruction_count;
    switch (in->code) {
    case LDIF_FILL:
        return close_fill(c, in, &level);
    case LDIF_BASE64:
        in->room = base64_len(level.len);
        return extend(c, in->room, true);
    case LDIF_LINE:
    case LDIF_OUTPUT:
        /* "name", "::", a blank, the value in base64, LF */
        in->room = in->len + 3 + base64_len(level.len) + 1;
        max_room = &c->tree->max_room[in->code == LDIF_OUTPUT ? in->variant : 0];
        if (in->code == LDIF_LINE)
            in->variant = level.is_plain;
        if (*max_room < in->room)
            *max_room = in->room;
        break;
    case LDIF_LOOP:
    case LDIF_PICK:
        c->is_in_loop = false;
        break;
    default:
        break;
    }
    return NULL;
}

/* Compiles one instruction. Returns NULL, or what is wrong with it. */
static const char *
compile_instruction(struct compilation *c)
{
    struct ldif_instruction *in = &c->node->instructions[c->node->instruction_count];
    uint64_t field = 0;
    const char *fault;

    *in = (struct ldif_instruction){.code = *c->reader.at++};
    if (in->code <= LDIF_NUMBER && !is_in_text(c))
        return "text stands outside of any line";
    if (in->code >= LDIF_CHANCE && in->code <= LDIF_BODY && is_in_text(c))
        return "parts within text are no text";
    switch (in->code) {
    case LDIF_LITERAL:
        fault = compile_literal(c, in);
        break;
    case LDIF_VALUE:
        fault = compile_value(c, in);
        break;
    case LDIF_SLOT:
        fault = compile_slot(c, in);
        break;
    case LDIF_NUMBER:
        fault = c->is_in_loop ? extend(c, NUMBER_DIGITS, true) : "there is no loop";
        break;
    case LDIF_CHANCE:
    case LDIF_SET:
        fault = compile_flag(c, in);
        break;
    case LDIF_FIELD:
        fault = read_number(&c->reader, 4, &field) ? NULL : "an operand is missing";
        in->limit = (uint32_t)field;
        break;
    case LDIF_BODY:
        fault = c->depth > 0 || c->has_body ? "the body begins once, in no part" : NULL;
        c->has_body = true;
        break;
    case LDIF_END:
        fault = compile_end(c, in);
        break;
    default:
        fault = in->code >= LDIF_BASE64 && in->code <= LDIF_PICK
                    ? compile_open(c, in)
                    : "unknown instruction";
        break;
    }
    if (!fault)
        c->node->instruction_count++;
    return fault;
}

/* Gives back what the program did not need; a realloc that fails takes nothing. */
static void
shrink(struct ldif_node *node)
{
    void *instructions = realloc(node->instructions,
                                 node->instruction_count * sizeof(*node->instructions));
    void *slots = realloc(node->slots, (node->slot_count + 1) * sizeof(*node->slots));

    if (instructions)
        node->instructions = instructions;
    if (slots)
        node->slots = slots;
}

int
ldif_compile(struct ldif_tree *tree, uint32_t index, const uint8_t *program,
             size_t program_len, char *err, size_t err_len)
{
    struct ldif_node *node = &tree->nodes[index];
    struct compilation c = {.tree = tree,
                            .node = node,
                            .reader = {.at = program, .end = program + program_len}};
    const char *fault = NULL;
    size_t offset = 0;

    if (program_len == 0 || program_len > PROGRAM_MAX) {
        snprintf(err, err_len, "an entry's program has 1 to %u bytes, got %zu",
                 PROGRAM_MAX, program_len);
        return SLAM_EINVAL;
    }
    /* The program's length bounds its instructions, literals and slots. */
    node->instructions = malloc(program_len * sizeof(*node->instructions));
    node->literals = malloc(program_len);
    node->slots = calloc(SLAM_LDIF_SLOTS_MAX, sizeof(*node->slots));
    if (!node->instructions || !node->literals || !node->slots) {
        snprintf(err, err_len, "no memory for an entry's program");
        return SLAM_ENOMEM;
    }
    while (!fault && c.reader.at < c.reader.end) {
        offset = (size_t)(c.reader.at - program);
        fault = compile_instruction(&c);
    }
    if (!fault && (c.depth > 0 || !c.has_body)) {
        offset = program_len;
        fault = c.depth > 0 ? "a part is not ended" : "it has no body";
    }
    if (fault) {
        snprintf(err, err_len, "bad program of node %u at byte %zu: %s", index, offset,
                 fault);
        return SLAM_EINVAL;
    }
    shrink(node);
    return SLAM_OK;
}
