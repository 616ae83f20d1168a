/* SPDX-License-Identifier: Apache-2.0 */
#include "columns/tables.h"

#include "core/slam_err.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_32 = 5 };

/* What is left of a message. */
struct span {
    const uint8_t *at;
    const uint8_t *end;
};

struct value {
    uint32_t number;
    uint32_t wire;
    uint64_t bits;     /* but of WIRE_BYTES */
    struct span bytes; /* of WIRE_BYTES */
};

static bool
read_varint(struct span *s, uint64_t *out)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 70 && s->at < s->end; shift += 7) {
        const uint8_t byte = *s->at++;

        if (shift == 63 && byte > 1)
            return false;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    return false;
}

static uint64_t
little_endian(const uint8_t *data, size_t len)
{
    uint64_t value = 0;

    for (size_t i = len; i > 0; i--)
        value = value << 8 | data[i - 1];
    return value;
}

/* The next field of a message; false for what is none. */
static bool
read_field(struct span *s, struct value *out)
{
    uint64_t tag, len;

    if (!read_varint(s, &tag) || tag >> 3 == 0 || tag > UINT32_MAX)
        return false;
    out->number = (uint32_t)(tag >> 3);
    out->wire = (uint32_t)(tag & 7);
    if (out->wire == WIRE_VARINT)
        return read_varint(s, &out->bits);
    if (out->wire == WIRE_BYTES) {
        if (!read_varint(s, &len) || len > (size_t)(s->end - s->at))
            return false;
        out->bytes = (struct span){s->at, s->at + len};
    } else if (out->wire == WIRE_64 || out->wire == WIRE_32) {
        len = out->wire == WIRE_64 ? 8 : 4;
        if (len > (size_t)(s->end - s->at))
            return false;
        out->bits = little_endian(s->at, len);
    } else {
        return false; /* groups, which proto3 has not */
    }
    s->at += len;
    return true;
}

/* A new row of zeros, or NULL. */
static int64_t *
add_row(struct slam_table *table, size_t parent)
{
    int64_t *row;

    if (table->rows == table->room) {
        const size_t room = table->room ? 2 * table->room : 64;
        int64_t *grown = realloc(table->cells, room * table->width * sizeof(*grown));

        if (!grown)
            return NULL;
        table->cells = grown;
        table->room = room;
    }
    row = table->cells + table->rows++ * table->width;
    memset(row, 0, table->width * sizeof(*row));
    row[SLAM_CELL_PARENT] = (int64_t)parent;
    return row;
}

/* FNV-1a. */
static uint64_t
hash_of(struct span s)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (; s.at < s.end; s.at++)
        hash = (hash ^ *s.at) * 0x100000001b3u;
    return hash;
}

/* The place of a text, or the free one where it belongs. */
static uint32_t *
text_place(const struct slam_tables *t, const uint8_t *data, struct span s)
{
    const size_t len = (size_t)(s.end - s.at), mask = 2 * t->text_room - 1;
    size_t place = hash_of(s) & mask;

    for (;; place = (place + 1) & mask) {
        const uint32_t number = t->text_places[place];
        const struct slam_text *text = &t->texts[number];

        if (number == 0 ||
            (text->len == len && memcmp(data + text->start, s.at, len) == 0))
            return &t->text_places[place];
    }
}

static int
grow_texts(struct slam_tables *t, const uint8_t *data)
{
    const size_t room = t->text_room ? 2 * t->text_room : 64;
    struct slam_text *texts = realloc(t->texts, room * sizeof(*texts));
    uint32_t *places;

    if (!texts)
        return SLAM_ENOMEM;
    t->texts = texts;
    places = calloc(2 * room, sizeof(*places));
    if (!places)
        return SLAM_ENOMEM;
    free(t->text_places);
    t->text_places = places;
    t->text_room = room;
    if (t->text_count == 0)
        t->texts[t->text_count++] = (struct slam_text){0, 0};
    for (uint32_t i = 1; i < t->text_count; i++) {
        const uint8_t *start = data + t->texts[i].start;

        *text_place(t, data, (struct span){start, start + t->texts[i].len}) = i;
    }
    return SLAM_OK;
}

static int
number_of_text(struct slam_tables *t, const uint8_t *data, struct span s, int64_t *out)
{
    uint32_t *place;

    *out = 0;
    if (s.at == s.end)
        return SLAM_OK;
    if (t->text_count == t->text_room) {
        if (t->text_room > UINT32_MAX / 2)
            return SLAM_EINVAL;
        if (grow_texts(t, data) != SLAM_OK)
            return SLAM_ENOMEM;
    }
    place = text_place(t, data, s);
    if (*place == 0) {
        *place = (uint32_t)t->text_count;
        t->texts[t->text_count++] =
            (struct slam_text){(size_t)(s.at - data), (size_t)(s.end - s.at)};
    }
    *out = *place;
    return SLAM_OK;
}

static uint32_t
wire_of(enum slam_field_kind kind)
{
    switch (kind) {
    case SLAM_FIELD_TEXT:
    case SLAM_FIELD_BYTES:
    case SLAM_FIELD_MESSAGE:
        return WIRE_BYTES;
    case SLAM_FIELD_DOUBLE:
        return WIRE_64;
    default:
        return WIRE_VARINT;
    }
}

/* Tables of messages within are later ones: it ends. */
static int
read_message(struct slam_tables *t, const uint8_t *data, size_t number, size_t parent,
             struct span s)
{
    struct slam_table *table = &t->tables[number];
    int64_t *row = add_row(table, parent);
    struct value value;
    int rc = SLAM_OK;

    if (!row)
        return SLAM_ENOMEM;
    while (s.at < s.end && rc == SLAM_OK) {
        const struct slam_field *field;
        int64_t *cell;

        if (!read_field(&s, &value))
            return SLAM_EINVAL;
        if (value.number >= SLAM_FIELDS)
            continue;
        field = &table->fields[value.number];
        if (field->kind == SLAM_FIELD_UNKNOWN || wire_of(field->kind) != value.wire)
            continue;
        row[SLAM_CELL_PRESENT] |= (int64_t)(UINT64_C(1) << value.number);
        cell = row + field->at;
        switch (field->kind) {
        case SLAM_FIELD_MESSAGE:
            rc = read_message(t, data, field->at, table->rows - 1, value.bytes);
            break;
        case SLAM_FIELD_TEXT:
            rc = number_of_text(t, data, value.bytes, cell);
            break;
        case SLAM_FIELD_BYTES:
            cell[0] = value.bytes.at - data;
            cell[1] = value.bytes.end - value.bytes.at;
            break;
        case SLAM_FIELD_INT32:
            *cell = (int32_t)value.bits;
            break;
        case SLAM_FIELD_UINT32:
            *cell = (uint32_t)value.bits;
            break;
        case SLAM_FIELD_BOOL:
            *cell = value.bits != 0;
            break;
        default:
            *cell = (int64_t)value.bits;
        }
    }
    return rc;
}

int
slam_tables_read(struct slam_tables *t, const uint8_t *data, const int64_t *ends,
                 size_t count)
{
    int rc = grow_texts(t, data);
    size_t start = 0;

    for (size_t i = 0; i < count && rc == SLAM_OK; i++) {
        const size_t end = (size_t)ends[i];

        rc = read_message(t, data, 0, i, (struct span){data + start, data + end});
        start = end;
    }
    return rc;
}

void
slam_tables_release(struct slam_tables *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->tables[i].cells);
    free(t->tables);
    free(t->texts);
    free(t->text_places);
}
