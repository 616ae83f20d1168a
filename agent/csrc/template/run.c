/* SPDX-License-Identifier: Apache-2.0 */
/* Runs programs, straight into the buffer of a request or of an entry's lines. */
#include "core/ber.h"
#include "core/slam_err.h"
#include "template/program.h"
#include "template/text.h"

#include <string.h>

struct run {
    struct machine *machine;
    const struct slam_program *program;
    uint64_t turn;
    uint64_t turns;
    uint64_t number;
    struct slam_shuffle shuffle; /* of PICK */
};

/* Writes the header of the TLV [begin, at), for which `header` bytes were kept free.
 * Returns the TLV's end. */
static uint8_t *
close_tlv(uint8_t *begin, size_t header, uint8_t *at)
{
    const size_t len = (size_t)(at - begin) - header;
    const size_t needed = slam_ber_header_len(len);

    if (header != needed)
        memmove(begin + needed, begin + header, len);
    return slam_ber_put_header(begin, *begin, len) + len;
}

/* A SAFE-STRING of RFC 2849, and no blank at its end, which readers may strip. */
static bool
is_safe(const uint8_t *text, size_t len, bool is_plain)
{
    const uint8_t first = text[0];

    if (first == ' ' || first == ':' || first == '<' || text[len - 1] == ' ')
        return false;
    if (is_plain)
        return true;
    for (size_t i = 0; i < len; i++)
        if (text[i] == '\0' || text[i] == '\n' || text[i] == '\r' || text[i] > 0x7f)
            return false;
    return true;
}

static uint8_t *
open_line(struct machine *m, const struct slam_program *p, const struct instruction *in)
{
    const uint32_t number = in->code == SLAM_CODE_OUTPUT ? in->variant : 0;
    struct program_output *output = &m->outputs[number];
    uint8_t *at;

    if (output->cap - output->len < in->room) {
        m->rc = m->flush(m->context, number);
        if (m->rc != SLAM_OK)
            return NULL;
    }
    at = output->bytes + output->len;
    if (in->code == SLAM_CODE_OUTPUT)
        return at;
    memcpy(at, p->literals + in->offset, in->len);
    at += in->len;
    *at++ = ':';
    *at++ = ' ';
    return at;
}

/* Ends the line whose value is [value, at); an attribute without a value has none. */
static void
close_line(struct machine *m, const struct instruction *in, uint8_t *value, uint8_t *at)
{
    struct program_output *output = &m->outputs[0];

    if (at == value)
        return;
    if (!is_safe(value, (size_t)(at - value), in->variant)) {
        at = slam_text_encode_in_place(value, (size_t)(at - value), 1);
        value[-1] = ':';
        value[0] = ' ';
    }
    *at++ = '\n';
    output->len = (size_t)(at - output->bytes);
}

static void
close_output(struct machine *m, const struct instruction *in, uint8_t *at)
{
    struct program_output *output = &m->outputs[in->variant];

    *at++ = '\n';
    output->len = (size_t)(at - output->bytes);
}

static uint8_t *
put_placed(struct machine *m, const struct slam_program *p,
           const struct instruction *in, uint8_t *at)
{
    /* of a partition that is dealt every number */
    struct slam_partition_cursor cursor = {.round = m->numbers[in->variant]};

    at = slam_value_put(&p->sources[in->index], &cursor, m->draw, at);
    if (in->variant == SLAM_PLACE_LAST && m->names_round > 0)
        at = slam_text_put_number(m->names_round, 0, at);
    return at;
}

static uint8_t *
put_slot(const struct program_frame *frame, const struct instruction *in, uint8_t *at)
{
    return slam_text_put((enum slam_text_form)in->variant,
                         frame->texts + frame->program->slots[in->index].offset,
                         frame->lens[in->index], in->len, at);
}

static bool
holds(const struct run *r, const struct instruction *in)
{
    const struct program_frame *frame = r->machine->frame;
    const struct slam_variable *variable =
        frame ? NULL : &r->machine->draw->variables[in->index];
    const uint32_t len = frame ? frame->lens[in->index] : variable->len;
    const uint8_t *text =
        frame ? frame->texts + r->program->slots[in->index].offset : variable->text;

    if (in->code == SLAM_CODE_IF)
        return (len > 0) == in->variant;
    return len == in->len && memcmp(text, r->program->literals + in->offset, len) == 0;
}

/* The last instruction of a part that is absent. */
static const struct instruction *
skip(const struct run *r, const struct instruction *in)
{
    return r->program->instructions + in->peer;
}

/* The first turn of a loop. Returns false if there is none. */
static bool
begin_loop(struct run *r, const struct instruction *in)
{
    const struct program_loop *loop = &r->program->loops[in->index];
    struct slam_rng *rng = r->machine->draw->rng;

    r->turn = 0;
    r->turns = loop->least;
    r->number = loop->lo;
    if (in->code == SLAM_CODE_PICK && loop->most > 0) {
        r->turns += slam_rng_below(rng, loop->most - loop->least + 1);
        r->shuffle = slam_shuffle_draw(rng, loop->lo);
        r->number = slam_shuffle_member(&r->shuffle, 0);
    }
    return r->turns > 0;
}

static bool
next_turn(struct run *r, const struct instruction *in)
{
    r->turn++;
    if (r->turn == r->turns)
        return false;
    if (in->code == SLAM_CODE_END_OF(SLAM_CODE_PICK))
        r->number = slam_shuffle_member(&r->shuffle, r->turn);
    else
        r->number++;
    return true;
}

uint8_t *
slam_program_run(struct machine *m, const struct slam_program *p, bool is_whole,
                 uint8_t *at)
{
    uint8_t *begins[SLAM_TEMPLATE_DEPTH_MAX], *begin;
    size_t depth = 0;
    const struct instruction *in = p->instructions;
    const struct instruction *end = in + (is_whole ? p->count : p->body);
    struct run r;

    r.machine = m;
    r.program = p;
    for (; in < end; in++) {
        switch (in->code) {
        case SLAM_CODE_LITERAL:
            memcpy(at, p->literals + in->offset, in->len);
            at += in->len;
            break;
        case SLAM_CODE_VALUE:
            at = slam_value_put(&p->sources[in->index],
                                m->states ? &m->states[in->index] : NULL, m->draw, at);
            break;
        case SLAM_CODE_TLV:
            *at = in->variant;
            begins[depth++] = at;
            at += in->header;
            break;
        case SLAM_CODE_END_OF(SLAM_CODE_TLV):
            begin = begins[--depth];
            at = (size_t)(at - begin) - in->header < in->len
                     ? begin
                     : close_tlv(begin, in->header, at);
            break;
        case SLAM_CODE_CHANCE:
            if (slam_rng_below(m->draw->rng, 1000000) >= in->len)
                in = skip(&r, in);
            break;
        case SLAM_CODE_IF:
        case SLAM_CODE_EQUAL:
            if (!holds(&r, in))
                in = skip(&r, in);
            break;
        case SLAM_CODE_PLACED:
            at = put_placed(m, p, in, at);
            break;
        case SLAM_CODE_SLOT:
            at = put_slot(m->frame - in->level, in, at);
            break;
        case SLAM_CODE_NUMBER:
            at = slam_text_put_number(r.number, 0, at);
            break;
        case SLAM_CODE_LOOP:
        case SLAM_CODE_PICK:
            if (!begin_loop(&r, in))
                in = skip(&r, in);
            break;
        case SLAM_CODE_END_OF(SLAM_CODE_LOOP):
        case SLAM_CODE_END_OF(SLAM_CODE_PICK):
            if (next_turn(&r, in))
                in = p->instructions + in->peer;
            break;
        case SLAM_CODE_FILL:
            at = m->frame->texts + p->slots[in->index].offset;
            begins[depth++] = at;
            break;
        case SLAM_CODE_END_OF(SLAM_CODE_FILL):
            m->frame->lens[in->index] = (uint32_t)(at - begins[--depth]);
            break;
        case SLAM_CODE_LINE:
        case SLAM_CODE_OUTPUT:
            at = open_line(m, p, in);
            if (!at)
                return NULL;
            begins[depth++] = at;
            break;
        case SLAM_CODE_END_OF(SLAM_CODE_LINE):
            close_line(m, in, begins[--depth], at);
            break;
        case SLAM_CODE_END_OF(SLAM_CODE_OUTPUT):
            depth--;
            close_output(m, in, at);
            break;
        case SLAM_CODE_BASE64:
            begins[depth++] = at;
            break;
        case SLAM_CODE_END_OF(SLAM_CODE_BASE64):
            begin = begins[--depth];
            at = slam_text_encode_in_place(begin, (size_t)(at - begin), 0);
            break;
        default: /* FIELD */
            slam_rng_seed(m->draw->rng, m->key, in->len);
            break;
        }
    }
    return at;
}

size_t
slam_template_encode(const struct slam_template *t,
                     struct slam_partition_cursor *states, const struct slam_draw *draw,
                     int32_t message_id, uint8_t *out)
{
    struct machine m = {.draw = draw, .states = states};
    const size_t header = t->program.header;
    uint8_t *at = slam_ber_put_message_id(out + header, message_id);

    *out = SLAM_BER_SEQUENCE;
    at = slam_program_run(&m, &t->program, true, at);
    return (size_t)(close_tlv(out, header, at) - out);
}

size_t
slam_template_text(const struct slam_template *t, struct slam_partition_cursor *states,
                   const struct slam_draw *draw, uint8_t *out)
{
    struct machine m = {.draw = draw, .states = states};

    return (size_t)(slam_program_run(&m, &t->program, true, out) - out);
}
