/* SPDX-License-Identifier: Apache-2.0 */
/* Text of a population's entries: literals, values, slots in their forms, base64. */
#include "ldif/ldif_internal.h"

#include <string.h>

#define SHUFFLE_ROUNDS 4u

bool
ldif_is_plain(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] < 0x20 || bytes[i] > 0x7e)
            return false;
    }
    return true;
}

bool
ldif_source_is_plain(const struct slam_value_source *source)
{
    switch (source->kind) {
    case SLAM_VALUE_STRING:
        return ldif_is_plain(source->data, source->data_len);
    case SLAM_VALUE_TIMESTAMP:
        return source->step != SLAM_TIMESTAMP_TEXT ||
               ldif_is_plain(source->data, source->data_len);
    case SLAM_VALUE_LIST:
        for (uint64_t i = 0; i < source->members; i++) {
            const struct slam_choice *choice = &source->prepared.choices[i];

            if (!ldif_is_plain(source->data + choice->offset, choice->len))
                return false;
        }
        return true;
    case SLAM_VALUE_FILE_RANDOM:
    case SLAM_VALUE_FILE_SEQUENCE:
        for (uint32_t i = 0; i < source->feed->count; i++) {
            size_t len;
            const uint8_t *line = slam_feed_line(source->feed, i, &len);

            if (!ldif_is_plain(line, len))
                return false;
        }
        return true;
    default:
        return true; /* digits, hyphens, letters */
    }
}

static bool
begins_character(uint8_t byte)
{
    return (byte & 0xc0u) != 0x80u;
}

/* Where character number `count` of a text in UTF-8 begins; at most len. */
static size_t
character_at(const uint8_t *text, size_t len, size_t count)
{
    size_t at = 0;

    while (count > 0 && at < len) {
        at++;
        while (at < len && !begins_character(text[at]))
            at++;
        count--;
    }
    return at;
}

static size_t
count_characters(const uint8_t *text, size_t len)
{
    size_t count = 0;

    for (size_t i = 0; i < len; i++)
        count += begins_character(text[i]);
    return count;
}

/* Part of a text as an assertion value (RFC 4515 section 3). */
static uint8_t *
put_filter(const uint8_t *text, size_t len, size_t limit, enum slam_ldif_form form,
           uint8_t *at)
{
    static const char hex[] = "0123456789abcdef";
    size_t first = 0, end = len;

    if (limit > 0) {
        size_t count = count_characters(text, len);
        size_t rest = count > limit ? count - limit : 0;

        if (form == SLAM_LDIF_FILTER_FINAL)
            first = character_at(text, len, rest);
        else if (form == SLAM_LDIF_FILTER_ANY)
            first = character_at(text, len, rest / 2);
        end = first + character_at(text + first, len - first, limit);
    }
    for (size_t i = first; i < end; i++) {
        const uint8_t c = text[i];

        if (c == '\0' || c == '(' || c == ')' || c == '*' || c == '\\' || c == '\n' ||
            c == '\r') {
            *at++ = '\\';
            *at++ = (uint8_t)hex[c >> 4];
            *at++ = (uint8_t)hex[c & 0xf];
        } else {
            *at++ = c;
        }
    }
    return at;
}

static uint8_t *
put_slot(const struct ldif_renderer *r, const struct ldif_frame *frame,
         const struct ldif_instruction *in, uint8_t *at)
{
    const struct ldif_node *node = &r->tree->nodes[frame->node];
    const uint8_t *text = frame->texts + node->slots[in->index].offset;
    uint32_t len = frame->lens[in->index];

    switch (in->variant) {
    case SLAM_LDIF_DN_VALUE:
        return at + slam_value_escape_dn(
                        text, slam_value_cut((const char *)text, len, in->limit),
                        (char *)at);
    case SLAM_LDIF_FILTER_INITIAL:
    case SLAM_LDIF_FILTER_ANY:
    case SLAM_LDIF_FILTER_FINAL:
        return put_filter(text, len, in->limit, in->variant, at);
    default:
        break;
    }
    len = slam_value_cut((const char *)text, len, in->limit);
    memcpy(at, text, len);
    if (in->variant == SLAM_LDIF_UNDERSCORES) {
        for (uint32_t i = 0; i < len; i++) {
            if (at[i] == ',')
                at[i] = '_';
        }
    }
    return at + len;
}

static uint8_t *
put_number(uint64_t n, uint8_t *at)
{
    uint8_t digits[20];
    size_t first = sizeof(digits);

    do {
        digits[--first] = (uint8_t)('0' + n % 10);
        n /= 10;
    } while (n != 0);
    memcpy(at, digits + first, sizeof(digits) - first);
    return at + (sizeof(digits) - first);
}

/* Turns the len bytes before `end`, which lie at least a third of them and two behind
 * `at`, into base64 from `at` on: what is written stays behind what is read. */
static uint8_t *
put_base64(uint8_t *at, const uint8_t *from, size_t len)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (; len >= 3; len -= 3, from += 3) {
        const uint32_t bits =
            (uint32_t)from[0] << 16 | (uint32_t)from[1] << 8 | (uint32_t)from[2];

        *at++ = (uint8_t)digits[bits >> 18];
        *at++ = (uint8_t)digits[bits >> 12 & 0x3f];
        *at++ = (uint8_t)digits[bits >> 6 & 0x3f];
        *at++ = (uint8_t)digits[bits & 0x3f];
    }
    if (len > 0) {
        const uint32_t bits =
            (uint32_t)from[0] << 16 | (len > 1 ? (uint32_t)from[1] << 8 : 0);

        *at++ = (uint8_t)digits[bits >> 18];
        *at++ = (uint8_t)digits[bits >> 12 & 0x3f];
        *at++ = (uint8_t)(len > 1 ? digits[bits >> 6 & 0x3f] : '=');
        *at++ = '=';
    }
    return at;
}

uint8_t *
ldif_encode_in_place(uint8_t *at, size_t len, size_t shift)
{
    uint8_t *from = at + shift + (len + 2) / 3 * 4 - len;

    memmove(from, at, len);
    return put_base64(at + shift, from, len);
}

/* -- values -- */

struct ldif_shuffle
ldif_shuffle_draw(struct slam_rng *rng, uint64_t n)
{
    uint32_t bits = 2;

    while (bits < 64 && n >> bits != 0)
        bits++;
    return (struct ldif_shuffle){.n = n,
                                 .key = slam_rng_next(rng),
                                 .low_bits = bits / 2,
                                 .high_bits = bits - bits / 2};
}

/* A Feistel network (M. Luby and C. Rackoff, How to construct pseudorandom permutations
 * from pseudorandom functions, 1988): each round changes one half by a function of the
 * other, which permutes the numbers of so many bits. What lies beyond n is permuted
 * once more (J. Black and P. Rogaway, Ciphers with arbitrary finite domains, 2002);
 * fewer than four turns on average. */
uint64_t
ldif_shuffle_member(const struct ldif_shuffle *shuffle, uint64_t i)
{
    const uint64_t low_mask = (UINT64_C(1) << shuffle->low_bits) - 1;
    const uint64_t high_mask = (UINT64_C(1) << shuffle->high_bits) - 1;
    uint64_t x = i % shuffle->n;

    do {
        uint64_t low = x & low_mask, high = x >> shuffle->low_bits;
        uint64_t key = shuffle->key;

        for (uint32_t round = 0; round < SHUFFLE_ROUNDS; round++) {
            uint64_t z = (round % 2 == 0 ? low : high) ^ key;

            z = (z ^ (z >> 32)) * UINT64_C(0xd6e8feb86659fd93);
            z = (z ^ (z >> 32)) * UINT64_C(0xd6e8feb86659fd93);
            z ^= z >> 32;
            if (round % 2 == 0)
                high ^= z & high_mask;
            else
                low ^= z & low_mask;
            key += UINT64_C(0x9e3779b97f4a7c15);
        }
        x = high << shuffle->low_bits | low;
    } while (x >= shuffle->n);
    return x;
}

static uint8_t *
put_value(struct ldif_renderer *r, const struct ldif_frame *frame,
          const struct ldif_instruction *in, uint8_t *at)
{
    static const struct slam_share all = {
        .first = 0, .step = 1, .count = 1, .total = 1};
    const struct ldif_tree *tree = r->tree;
    const struct ldif_node *node = &tree->nodes[frame->node];
    const struct slam_draw draw = {.rng = &r->rng, .share = &all};
    struct slam_value_state state = {.cursor = {0}};
    const uint64_t name = node->first_name + frame->ordinal;
    uint64_t round = 0;

    switch (in->variant) {
    case SLAM_LDIF_INDEX:
        round = node->first_index + frame->ordinal;
        break;
    case SLAM_LDIF_SIBLING:
        round = frame->sibling;
        break;
    case SLAM_LDIF_POSITION:
        round = frame->position;
        break;
    case SLAM_LDIF_FIRST:
        round = ldif_shuffle_member(&tree->names, name) %
                tree->sources[tree->first_names].members;
        break;
    case SLAM_LDIF_LAST:
        round = ldif_shuffle_member(&tree->names, name) /
                tree->sources[tree->first_names].members;
        break;
    default:
        break;
    }
    state.cursor.round = round; /* of a share that is dealt every x */
    at += slam_value_emit(&tree->sources[in->index], &state, &draw, (char *)at);
    if (in->variant == SLAM_LDIF_LAST && name >= tree->names.n)
        at = put_number(name / tree->names.n, at);
    return at;
}

uint8_t *
ldif_put_text(struct ldif_renderer *r, const struct ldif_frame *frame,
              const struct ldif_node *node, const struct ldif_instruction *opened,
              uint8_t *at)
{
    const struct ldif_instruction *in = opened + 1;
    uint8_t *begin;

    for (;; in++) {
        switch (in->code) {
        case LDIF_LITERAL:
            memcpy(at, node->literals + in->offset, in->len);
            at += in->len;
            break;
        case LDIF_VALUE:
            at = put_value(r, frame, in, at);
            break;
        case LDIF_SLOT:
            at = put_slot(r, frame - in->level, in, at);
            break;
        case LDIF_NUMBER:
            at = put_number(r->number, at);
            break;
        case LDIF_BASE64:
            begin = at;
            at = ldif_put_text(r, frame, node, in, begin);
            at = ldif_encode_in_place(begin, (size_t)(at - begin), 0);
            in = &node->instructions[in->peer];
            break;
        default: /* END */
            return at;
        }
    }
}
