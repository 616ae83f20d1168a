/* SPDX-License-Identifier: Apache-2.0 */
#include "columns/tables.h"
#include "core/slam_err.h"
#include "slam_test.h"

#include <stdlib.h>

enum { WIDTH = 9 };

/* 1: uint64, 2: text, 3: int32, 4: bool, 5: double, 6: bytes; 7: messages {1: uint32}.
 */
static struct slam_tables
tables_new(void)
{
    struct slam_tables t = {.tables = calloc(2, sizeof(*t.tables)), .count = 2};

    t.tables[0].width = WIDTH;
    t.tables[0].fields[1] = (struct slam_field){SLAM_FIELD_INT64, 2};
    t.tables[0].fields[2] = (struct slam_field){SLAM_FIELD_TEXT, 3};
    t.tables[0].fields[3] = (struct slam_field){SLAM_FIELD_INT32, 4};
    t.tables[0].fields[4] = (struct slam_field){SLAM_FIELD_BOOL, 5};
    t.tables[0].fields[5] = (struct slam_field){SLAM_FIELD_DOUBLE, 6};
    t.tables[0].fields[6] = (struct slam_field){SLAM_FIELD_BYTES, 7};
    t.tables[0].fields[7] = (struct slam_field){SLAM_FIELD_MESSAGE, 1};
    t.tables[1].width = 3;
    t.tables[1].fields[1] = (struct slam_field){SLAM_FIELD_UINT32, 2};
    return t;
}

static int
read_one(struct slam_tables *t, const char *data, size_t len)
{
    const int64_t end = (int64_t)len;

    return slam_tables_read(t, (const uint8_t *)data, &end, 1);
}

static void
test_fields_are_cells(void)
{
    static const char data[] =
        "\x08\xac\x02"                                 /* 1: 300 */
        "\x12\x02hi"                                   /* 2 */
        "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" /* 3: -1 */
        "\x20\x05"                                     /* 4: true */
        "\x29\0\0\0\0\0\0\xf8\x3f"                     /* 5: 1.5 */
        "\x32\x03"
        "abc"; /* 6 */
    struct slam_tables t = tables_new();
    const int64_t *row;
    double number;

    CHECK_EQ(read_one(&t, data, sizeof(data) - 1), SLAM_OK);
    CHECK_EQ(t.tables[0].rows, 1);
    row = t.tables[0].cells;
    CHECK_EQ(row[SLAM_CELL_PRESENT], 0x7e);
    CHECK_EQ(row[2], 300);
    CHECK_EQ(t.texts[row[3]].start, 5);
    CHECK_EQ(t.texts[row[3]].len, 2);
    CHECK_EQ(row[4], -1);
    CHECK_EQ(row[5], 1);
    memcpy(&number, &row[6], sizeof(number));
    CHECK(number == 1.5);
    CHECK_EQ(memcmp(data + row[7], "abc", 3), 0);
    CHECK_EQ(row[8], 3);
    slam_tables_release(&t);
}

static void
test_messages_within_are_rows_that_know_theirs(void)
{
    static const char data[] = "\x3a\x02\x08\x05\x3a\0" /* two within the first */
                               "\x3a\x06\x08\xff\xff\xff\xff\x0f";
    const int64_t ends[] = {6, 6, sizeof(data) - 1};
    struct slam_tables t = tables_new();
    const struct slam_table *within = &t.tables[1];

    CHECK_EQ(slam_tables_read(&t, (const uint8_t *)data, ends, 3), SLAM_OK);
    CHECK_EQ(t.tables[0].rows, 3);
    CHECK_EQ(within->rows, 3);
    CHECK_EQ(within->cells[0], 0);
    CHECK_EQ(within->cells[2], 5);
    CHECK_EQ(within->cells[3], 0);
    CHECK_EQ(within->cells[3 + SLAM_CELL_PRESENT], 0);
    CHECK_EQ(within->cells[6], 2);
    CHECK_EQ(within->cells[8], UINT32_MAX);
    slam_tables_release(&t);
}

static void
test_what_is_not_known_is_skipped(void)
{
    static const char data[] = "\x78\x07"       /* 15, a number */
                               "\xa2\x06\x02zz" /* 100 */
                               "\x0a\x01z"      /* 1 as bytes */
                               "\x65\1\2\3\4"   /* 12, 32 bits */
                               "\x08\x01";
    struct slam_tables t = tables_new();

    CHECK_EQ(read_one(&t, data, sizeof(data) - 1), SLAM_OK);
    CHECK_EQ(t.tables[0].cells[SLAM_CELL_PRESENT], 2);
    CHECK_EQ(t.tables[0].cells[2], 1);
    slam_tables_release(&t);
}

static void
test_equal_texts_have_one_number(void)
{
    enum { TEXTS = 1000 };
    static uint8_t data[TEXTS * 2][5];
    int64_t ends[TEXTS * 2];
    struct slam_tables t = tables_new();
    const int64_t *cells;

    for (int i = 0; i < 2 * TEXTS; i++) {
        data[i][0] = 0x12;
        data[i][1] = 3;
        data[i][2] = (uint8_t)('a' + i % TEXTS / 100);
        data[i][3] = (uint8_t)('a' + i / 10 % 10);
        data[i][4] = (uint8_t)('a' + i % 10);
        ends[i] = (i + 1) * 5;
    }
    CHECK_EQ(slam_tables_read(&t, data[0], ends, (size_t)2 * TEXTS), SLAM_OK);
    CHECK_EQ(t.text_count, TEXTS + 1);
    cells = t.tables[0].cells;
    for (int i = 0; i < TEXTS; i++) {
        CHECK_EQ(cells[i * WIDTH + 3], i + 1);
        CHECK_EQ(cells[(i + TEXTS) * WIDTH + 3], i + 1);
    }
    slam_tables_release(&t);
}

static void
test_damage_is_refused(void)
{
    static const struct {
        const char *data;
        size_t len;
    } cases[] = {
        {"\x08", 1},     /* no value */
        {"\x08\x80", 2}, /* a number that goes on */
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11}, /* of 65 bits */
        {"\x12\x03hi", 4},                                    /* too short a text */
        {"\x29\0\0\0\0\0\0\0", 8},                            /* too short a double */
        {"\x05\0\0\0\0", 5},                                  /* field 0 */
        {"\x0b\x0c", 2},                                      /* a group */
        {"\x3a\x02\x08\x80\x01", 5},                          /* beyond the message */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct slam_tables t = tables_new();

        CHECK_EQ(read_one(&t, cases[i].data, cases[i].len), SLAM_EINVAL);
        slam_tables_release(&t);
    }
}

int
main(void)
{
    RUN(test_fields_are_cells);
    RUN(test_messages_within_are_rows_that_know_theirs);
    RUN(test_what_is_not_known_is_skipped);
    RUN(test_equal_texts_have_one_number);
    RUN(test_damage_is_refused);
    return SLAM_TEST_EXIT();
}
