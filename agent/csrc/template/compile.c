/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles programs, and checks all that running relies on: operands, nesting, and the
 * most bytes of each text. */
#include "core/ber.h"
#include "core/slam_err.h"
#include "template/program.h"
#include "template/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM_MAX (16u << 20)
#define CERTAIN_PPM 1000000u
#define TAG_NUMBER_MASK 0x1fu
#define VARIABLE_LIKELY 32u
#define ENVELOPE_LIKELY 4u /* a messageID of two bytes */

_Static_assert(SLAM_TEMPLATE_PDU_MAX < (1u << 24), "lengths are written in 3 bytes");

struct reader {
    const uint8_t *at;
    const uint8_t *end;
};

/* A part that is open; the first level is the program. */
struct level {
    uint32_t instruction;
    bool is_text;
    bool is_plain; /* so far */
    size_t len;    /* the most so far */
    size_t likely; /* what it mostly is */
};

struct compilation {
    const struct program_context *context;
    struct slam_program *program;
    struct reader reader;
    struct level levels[SLAM_TEMPLATE_DEPTH_MAX + 1];
    size_t depth;
    uint32_t literals_len;
    bool is_entry;
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

/* Adds to the text that is open: at most len bytes, mostly `likely`. */
static const char *
extend_likely(struct compilation *c, size_t len, size_t likely, bool is_plain)
{
    struct level *text = &c->levels[c->depth];

    text->len += len;
    text->likely += likely;
    text->is_plain = text->is_plain && is_plain;
    if (c->is_entry)
        return text->len <= SLAM_PROGRAM_LINE_MAX ? NULL : "a line may become too long";
    return text->len <= SLAM_TEMPLATE_PDU_MAX ? NULL : "the request is too long";
}

static const char *
extend(struct compilation *c, size_t len, bool is_plain)
{
    return extend_likely(c, len, len, is_plain);
}

/* Takes bytes that the program has into the literals. */
static const char *
take_literal(struct compilation *c, struct instruction *in, uint64_t len)
{
    struct reader *r = &c->reader;

    if ((uint64_t)(r->end - r->at) < len)
        return "the text is longer than the program";
    in->offset = c->literals_len;
    in->len = (uint32_t)len;
    memcpy(c->program->literals + in->offset, r->at, in->len);
    c->literals_len += in->len;
    r->at += in->len;
    return NULL;
}

static const char *
compile_literal(struct compilation *c, struct instruction *in, const uint64_t *operands)
{
    const uint8_t *text = c->program->literals + c->literals_len;
    const char *fault = take_literal(c, in, operands[0]);

    if (fault)
        return fault;
    if (c->is_entry && memchr(text, '\n', in->len))
        return "a text has a line feed in it";
    return extend(c, in->len, c->is_entry && slam_text_is_plain(text, in->len));
}

static bool
is_in_turn(enum slam_value_kind kind)
{
    return kind == SLAM_VALUE_SEQUENCE || kind == SLAM_VALUE_FILE_SEQUENCE ||
           kind == SLAM_VALUE_UNIQUE;
}

/* A variable mostly holds a name, though it has room for more. */
static size_t
likely_len(const struct slam_value_source *source, size_t len)
{
    const bool is_variable =
        source->kind == SLAM_VALUE_VARIABLE || source->kind == SLAM_VALUE_PARENT;

    return is_variable && len > VARIABLE_LIKELY ? VARIABLE_LIKELY : len;
}

static const char *
compile_value(struct compilation *c, struct instruction *in, const uint64_t *operands)
{
    const struct program_context *context = c->context;
    const struct slam_value_source *source;
    size_t len;

    if (operands[0] >= context->source_count)
        return "there is no such value source";
    if (operands[1] > SLAM_PLACE_LAST ||
        (in->code == SLAM_CODE_PLACED && operands[1] == 0))
        return "unknown place";
    in->index = (uint16_t)operands[0];
    in->variant = (uint8_t)operands[1];
    source = &context->sources[in->index];
    if (c->is_entry && is_in_turn(source->kind) != (in->code == SLAM_CODE_PLACED))
        return "sources in turn, and no others, have a place";
    if ((in->variant == SLAM_PLACE_FIRST && in->index != context->first_names) ||
        (in->variant == SLAM_PLACE_LAST && in->index != context->last_names))
        return "this source has no names";
    if (in->variant >= SLAM_PLACE_FIRST)
        c->program->has_names = true;
    if ((source->kind == SLAM_VALUE_VARIABLE || source->kind == SLAM_VALUE_PARENT) &&
        source->lo >= (int64_t)c->program->variable_count)
        c->program->variable_count = (uint32_t)source->lo + 1;
    len = source->max_len;
    if (in->variant == SLAM_PLACE_LAST)
        len += SLAM_TEXT_DIGITS_MAX;
    return extend_likely(c, len, likely_len(source, len),
                         c->is_entry && context->source_is_plain[in->index]);
}

static const char *
compile_slot(struct compilation *c, struct instruction *in, const uint64_t *operands)
{
    const struct slam_program *p = c->program;
    const struct program_slot *slot;

    if (operands[0] > c->context->depth)
        return "there is no such ancestor";
    if (operands[0] > 0)
        p = c->context->above[operands[0] - 1];
    if (operands[1] >= p->slot_count || !p->slots[operands[1]].is_filled)
        return "the slot is not filled before";
    if (operands[3] > SLAM_FORM_UNDERSCORES)
        return "unknown form";
    slot = &p->slots[operands[1]];
    in->level = (uint8_t)operands[0];
    in->index = (uint16_t)operands[1];
    in->len = (uint32_t)operands[2];
    in->variant = (uint8_t)operands[3];
    return extend(
        c, slam_text_put_max((enum slam_text_form)in->variant, slot->cap, in->len),
        slot->is_plain);
}

/* IF and EQUAL: a slot of this entry, or a variable of the session. */
static const char *
compile_condition(struct compilation *c, struct instruction *in,
                  const uint64_t *operands)
{
    struct slam_program *p = c->program;

    if (c->is_entry &&
        (operands[0] >= p->slot_count || !p->slots[operands[0]].is_filled))
        return "the slot is not filled before";
    if (!c->is_entry && operands[0] >= p->variable_count)
        p->variable_count = (uint32_t)operands[0] + 1;
    in->index = (uint16_t)operands[0];
    if (in->code == SLAM_CODE_EQUAL)
        return take_literal(c, in, operands[1]);
    in->variant = (uint8_t)operands[1];
    return operands[1] > 1 ? "a slot has a text, 1, or none, 0" : NULL;
}

static const char *
compile_fill(struct compilation *c, struct instruction *in, const uint64_t *operands)
{
    struct slam_program *p = c->program;
    const uint64_t slot = operands[0];

    if (slot >= SLAM_PROGRAM_SLOTS_MAX)
        return "there are too many slots";
    if (slot < p->slot_count && p->slots[slot].is_filled)
        return "the slot is filled twice";
    if (c->has_body)
        return "slots are filled before the body";
    in->index = (uint16_t)slot;
    if (slot >= p->slot_count)
        p->slot_count = in->index + 1u;
    return NULL;
}

static const char *
compile_line(struct compilation *c, struct instruction *in, const uint64_t *operands)
{
    if (!c->has_body)
        return "lines stand behind the body's beginning";
    if (in->code == SLAM_CODE_LINE)
        return take_literal(c, in, operands[0]);
    if (operands[0] >= c->context->output_count)
        return "there is no such output";
    in->variant = (uint8_t)operands[0];
    return NULL;
}

static const char *
compile_loop(struct compilation *c, struct instruction *in, const uint64_t *operands)
{
    struct slam_program *p = c->program;
    const bool picks = in->code == SLAM_CODE_PICK;

    if (picks && (operands[1] > operands[2] || operands[2] > operands[0] ||
                  operands[0] > INT64_MAX))
        return "fewer different numbers can be picked";
    if (!picks && operands[1] > UINT64_MAX - operands[0])
        return "the loop's last number has more than 64 bits";
    if (c->is_in_loop)
        return "a loop stands within a loop";
    if (p->loop_count > UINT16_MAX)
        return "there are too many loops";
    c->is_in_loop = true;
    in->index = (uint16_t)p->loop_count;
    p->loops[p->loop_count++] = (struct program_loop){
        .lo = operands[0], .least = operands[1], .most = operands[picks ? 2 : 1]};
    return NULL;
}

static const char *
compile_tlv(struct compilation *c, struct instruction *in, const uint64_t *operands)
{
    if ((operands[0] & TAG_NUMBER_MASK) == TAG_NUMBER_MASK)
        return "tags of several bytes are not supported";
    in->code = SLAM_CODE_TLV;
    in->variant = (uint8_t)operands[0];
    in->len = (uint32_t)operands[1];
    c->program->has_tlvs = true;
    return NULL;
}

static const char *
compile_chance(struct compilation *c, struct instruction *in, const uint64_t *operands)
{
    (void)c;
    in->len = (uint32_t)operands[0];
    return in->len > CERTAIN_PPM ? "a probability is 0 to 1000000 millionths" : NULL;
}

static const char *
compile_number(struct compilation *c, struct instruction *in, const uint64_t *operands)
{
    (void)in, (void)operands;
    return c->is_in_loop ? extend(c, SLAM_TEXT_DIGITS_MAX, true) : "there is no loop";
}

static const char *
open_part(struct compilation *c, bool begins_text)
{
    const struct level *outer = &c->levels[c->depth];

    if (c->depth == SLAM_TEMPLATE_DEPTH_MAX)
        return "parts are nested too deep";
    if (begins_text && outer->is_text)
        return "a line stands within text";
    c->levels[++c->depth] = (struct level){.instruction = c->program->count,
                                           .is_text = begins_text || outer->is_text,
                                           .is_plain = true};
    return NULL;
}

static const char *
close_fill(struct compilation *c, const struct instruction *in,
           const struct level *text)
{
    struct slam_program *p = c->program;

    if (text->len > SLAM_PROGRAM_SLOTS_LEN_MAX - p->slots_len)
        return "the texts of the slots are too long";
    p->slots[in->index] = (struct program_slot){.offset = p->slots_len,
                                                .cap = (uint32_t)text->len,
                                                .is_plain = text->is_plain,
                                                .is_filled = true};
    p->slots_len += (uint32_t)text->len;
    return NULL;
}

static void
close_line(struct compilation *c, struct instruction *in, const struct level *text)
{
    size_t *max_room =
        &c->context->max_room[in->code == SLAM_CODE_OUTPUT ? in->variant : 0];

    if (in->code == SLAM_CODE_LINE)
        in->variant = text->is_plain;
    /* name, "::", a blank, the value in base64, LF */
    in->room = in->len + 3 + (uint32_t)slam_text_base64_len(text->len) + 1;
    if (*max_room < in->room)
        *max_room = in->room;
}

static const char *
close_loop(struct compilation *c, const struct instruction *in,
           const struct level *level)
{
    const uint64_t most = c->program->loops[in->index].most;

    c->is_in_loop = false;
    if (!c->is_entry && level->len == 0)
        return "a loop has no text";
    if (level->len > 0 && most > SLAM_PROGRAM_LINE_MAX / level->len)
        return c->is_entry ? "a line may become too long" : "the request is too long";
    return extend_likely(c, level->len * (size_t)most, level->likely * (size_t)most,
                         level->is_plain);
}

static const char *
compile_end(struct compilation *c, struct instruction *end)
{
    struct slam_program *p = c->program;
    const struct level level = c->levels[c->depth];
    struct instruction *in = &p->instructions[level.instruction];
    const char *fault = NULL;

    if (c->depth == 0)
        return "nothing is open";
    c->depth--;
    switch (in->code) {
    case SLAM_CODE_FILL:
        fault = close_fill(c, in, &level);
        break;
    case SLAM_CODE_LINE:
    case SLAM_CODE_OUTPUT:
        close_line(c, in, &level);
        break;
    case SLAM_CODE_LOOP:
    case SLAM_CODE_PICK:
        fault = close_loop(c, in, &level);
        break;
    case SLAM_CODE_TLV:
        in->header = slam_ber_header_len(level.likely);
        fault = extend_likely(c, slam_ber_header_len(level.len) + level.len,
                              in->header + level.likely, false);
        break;
    case SLAM_CODE_BASE64:
        fault = extend(c, slam_text_base64_len(level.len), true);
        break;
    default: /* CHANCE, IF, EQUAL: nothing is to be done at their end */
        in->peer = p->count - 1;
        return extend_likely(c, level.len, level.likely, level.is_plain);
    }
    in->peer = p->count;
    *end = *in;
    end->code = SLAM_CODE_END_OF(in->code);
    end->peer = level.instruction;
    p->count++;
    return fault;
}

static const char *
compile_body(struct compilation *c, struct instruction *in, const uint64_t *operands)
{
    (void)in, (void)operands;
    if (c->depth > 0 || c->has_body)
        return "the body begins once, in no part";
    c->has_body = true;
    c->program->body = c->program->count;
    return NULL;
}

enum { IN_TEXT = 1, OF_REQUESTS = 2, OF_ENTRIES = 4, OPENS = 8, BEGINS_TEXT = 16 };

/* The instructions but END. */
static const struct {
    uint8_t operands[4]; /* their bytes */
    uint8_t rules;
    const char *(*compile)(struct compilation *c, struct instruction *in,
                           const uint64_t *operands);
} codes[SLAM_CODE_BODY + 1] = {
    [SLAM_CODE_LITERAL] = {{4}, IN_TEXT, compile_literal},
    [SLAM_CODE_VALUE] = {{2}, IN_TEXT, compile_value},
    [SLAM_CODE_TLV] = {{1}, OF_REQUESTS | OPENS, compile_tlv},
    [SLAM_CODE_CHANCE] = {{4}, OPENS, compile_chance},
    [SLAM_CODE_OPTIONAL_TLV] = {{1, 4}, OF_REQUESTS | OPENS, compile_tlv},
    [SLAM_CODE_PLACED] = {{2, 1}, IN_TEXT | OF_ENTRIES, compile_value},
    [SLAM_CODE_SLOT] = {{1, 2, 4, 1}, IN_TEXT | OF_ENTRIES, compile_slot},
    [SLAM_CODE_NUMBER] = {{0}, IN_TEXT, compile_number},
    [SLAM_CODE_BASE64] = {{0}, IN_TEXT | OPENS, NULL},
    [SLAM_CODE_IF] = {{2, 1}, OPENS, compile_condition},
    [SLAM_CODE_EQUAL] = {{2, 4}, OPENS, compile_condition},
    [SLAM_CODE_LOOP] = {{8, 8}, OPENS, compile_loop},
    [SLAM_CODE_PICK] = {{8, 8, 8}, OPENS, compile_loop},
    [SLAM_CODE_FILL] = {{2}, OF_ENTRIES | OPENS | BEGINS_TEXT, compile_fill},
    [SLAM_CODE_LINE] = {{2}, OF_ENTRIES | OPENS | BEGINS_TEXT, compile_line},
    [SLAM_CODE_OUTPUT] = {{1}, OF_ENTRIES | OPENS | BEGINS_TEXT, compile_line},
    [SLAM_CODE_FIELD] = {{4}, OF_ENTRIES, NULL},
    [SLAM_CODE_BODY] = {{0}, OF_ENTRIES, compile_body}};

static const char *
compile_instruction(struct compilation *c)
{
    struct slam_program *p = c->program;
    struct instruction *in = &p->instructions[p->count];
    const uint8_t code = *c->reader.at++;
    uint64_t operands[4] = {0};
    const char *fault = NULL;
    uint8_t rules;

    *in = (struct instruction){.code = code};
    if (code == SLAM_CODE_END)
        return compile_end(c, in);
    if (code == 0 || code > SLAM_CODE_BODY)
        return "unknown instruction";
    rules = codes[code].rules;
    if (rules & OF_ENTRIES && !c->is_entry)
        return "this instruction is of entries alone";
    if (rules & OF_REQUESTS && c->is_entry)
        return "TLVs are of requests alone";
    if (rules & IN_TEXT && !c->levels[c->depth].is_text)
        return "text stands outside of any line";
    for (size_t i = 0; i < 4; i++)
        if (!read_number(&c->reader, codes[code].operands[i], &operands[i]))
            return "an operand is missing";
    if (rules & OPENS)
        fault = open_part(c, (rules & BEGINS_TEXT) != 0);
    if (code == SLAM_CODE_FIELD)
        in->len = (uint32_t)operands[0];
    if (!fault && codes[code].compile)
        fault = codes[code].compile(c, in, operands);
    if (code != SLAM_CODE_BODY && (code != SLAM_CODE_LITERAL || in->len > 0))
        p->count++;
    return fault;
}

/* Gives back what the program did not need; a realloc that fails takes nothing. */
static void *
shrunk(void *array, size_t bytes)
{
    void *smaller = realloc(array, bytes + 1);

    return smaller ? smaller : array;
}

int
slam_program_compile(struct slam_program *p, const struct program_context *context,
                     const uint8_t *bytes, size_t len, const char **fault,
                     size_t *offset)
{
    struct compilation c = {.context = context,
                            .program = p,
                            .reader = {.at = bytes, .end = bytes + len},
                            .is_entry = context->source_is_plain != NULL};

    *p = (struct slam_program){.sources = context->sources};
    *offset = 0;
    *fault = NULL;
    if (len == 0 || len > PROGRAM_MAX) {
        *fault = "a program has 1 to 16777216 bytes";
        return SLAM_EINVAL;
    }
    /* The program's length bounds its instructions, literals and loops. */
    p->instructions = malloc(len * sizeof(*p->instructions));
    p->literals = malloc(len);
    p->loops = malloc((len / 17 + 1) * sizeof(*p->loops));
    p->slots = calloc(c.is_entry ? SLAM_PROGRAM_SLOTS_MAX : 1, sizeof(*p->slots));
    if (!p->instructions || !p->literals || !p->loops || !p->slots) {
        *fault = "no memory for a program";
        return SLAM_ENOMEM;
    }
    c.levels[0] = (struct level){.is_text = !c.is_entry,
                                 .len = c.is_entry ? 0 : SLAM_PROGRAM_ENVELOPE_MAX,
                                 .likely = ENVELOPE_LIKELY};
    while (!*fault && c.reader.at < c.reader.end) {
        *offset = (size_t)(c.reader.at - bytes);
        *fault = compile_instruction(&c);
    }
    if (!*fault) {
        *offset = len;
        if (c.depth > 0)
            *fault = "a part is not ended";
        else if (c.is_entry ? !c.has_body : p->count == 0)
            *fault = c.is_entry ? "it has no body" : "it is empty";
    }
    if (*fault)
        return SLAM_EINVAL;
    p->max_len = c.levels[0].len;
    p->header = slam_ber_header_len(c.levels[0].likely);
    p->instructions = shrunk(p->instructions, p->count * sizeof(*p->instructions));
    p->literals = shrunk(p->literals, c.literals_len);
    p->loops = shrunk(p->loops, p->loop_count * sizeof(*p->loops));
    p->slots = shrunk(p->slots, p->slot_count * sizeof(*p->slots));
    return SLAM_OK;
}

void
slam_program_release(struct slam_program *p)
{
    free(p->instructions);
    free(p->literals);
    free(p->loops);
    free(p->slots);
}

int
slam_template_create(const struct slam_template_config *config,
                     struct slam_feeds *feeds, struct slam_template **created,
                     char *err)
{
    struct slam_template *t = calloc(1, sizeof(*t));
    struct program_context context = {.source_count = config->source_count};
    const char *fault = "no memory for a template";
    size_t offset = 0;
    int rc = SLAM_ENOMEM;

    if (config->source_count > SLAM_TEMPLATE_SOURCES_MAX) {
        fault = "it has more than 65535 value sources";
        rc = SLAM_EINVAL;
        goto refused;
    }
    if (t)
        t->sources = calloc(config->source_count + 1, sizeof(*t->sources));
    if (!t || !t->sources)
        goto refused;
    for (; t->source_count < config->source_count; t->source_count++) {
        struct slam_value_source *source = &t->sources[t->source_count];

        *source = config->sources[t->source_count];
        rc = slam_value_source_prepare(source, feeds, err);
        if (rc != SLAM_OK) {
            slam_template_destroy(t);
            return rc;
        }
    }
    context.sources = t->sources;
    rc = slam_program_compile(&t->program, &context, config->program,
                              config->program_len, &fault, &offset);
    if (rc == SLAM_OK) {
        *created = t;
        return rc;
    }
refused:
    snprintf(err, SLAM_ERR_LEN, "bad request template at byte %zu: %s", offset, fault);
    slam_template_destroy(t);
    return rc;
}

void
slam_template_destroy(struct slam_template *t)
{
    if (!t)
        return;
    slam_program_release(&t->program);
    for (size_t i = 0; i < t->source_count; i++)
        slam_value_source_release(&t->sources[i]);
    free(t->sources);
    free(t);
}

size_t
slam_template_max_pdu(const struct slam_template *t)
{
    return t->program.max_len;
}

size_t
slam_template_max_text(const struct slam_template *t)
{
    return t->program.has_tlvs ? SIZE_MAX
                               : t->program.max_len - SLAM_PROGRAM_ENVELOPE_MAX;
}

uint32_t
slam_template_variable_count(const struct slam_template *t)
{
    return t->program.variable_count;
}

size_t
slam_template_source_count(const struct slam_template *t)
{
    return t->source_count;
}
