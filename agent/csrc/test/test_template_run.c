/* SPDX-License-Identifier: Apache-2.0 */
#include "slam_test.h"
#include "template_program.h"

/* Whether the encoded request ends with these bytes. */
static bool
ends_with(const struct slam_template *op, struct slam_partition_cursor *states,
          const char *text)
{
    size_t len, text_len = strlen(text);
    uint8_t *pdu = encode(op, states, 1, &len);
    bool same = len >= text_len && memcmp(pdu + len - text_len, text, text_len) == 0;

    free(pdu);
    return same;
}

TEST(part_is_there_as_often_as_its_chance_says)
{
    /* 30 { 04 "a" [30%: 04 { 04 "b" [50%: 04 "c"] }] } */
    enum { DRAWS = 100000 };
    struct slam_template *op;
    int b = 0, c = 0;

    open_tlv(0x30);
    literal("\x04\x01"
            "a",
            3);
    chance(300000);
    open_tlv(0x04);
    literal("b", 1);
    chance(500000);
    literal("c", 1);
    end_part();
    end_part();
    end_part();
    end_part();
    op = create(NULL, 0);
    CHECK(op != NULL);
    slam_rng_seed(&rng, 7, 0);
    for (int i = 0; i < DRAWS; i++) {
        size_t len;
        uint8_t *pdu = encode(op, NULL, 1, &len);

        CHECK(len == 10 || len == 13 || len == 14);
        b += len == 13 && memcmp(pdu + 5,
                                 "\x30\x06\x04\x01"
                                 "a\x04\x01"
                                 "b",
                                 8) == 0;
        c += len == 14 && memcmp(pdu + 5,
                                 "\x30\x07\x04\x01"
                                 "a\x04\x02"
                                 "bc",
                                 9) == 0;
        free(pdu);
    }
    CHECK(abs(b - 15000) < 6 * 113); /* sqrt(100000 * 0.15 * 0.85) = 113 */
    CHECK(abs(c - 15000) < 6 * 113);
    slam_template_destroy(op);
}

TEST(absent_part_draws_no_value)
{
    struct slam_value_source sources[] = {
        {.kind = SLAM_VALUE_SEQUENCE, .lo = 0, .hi = 9, .step = 1}};
    struct slam_partition_cursor states[1] = {0};

    chance(0);
    value(0);
    end_part();
    literal("|", 1);
    value(0);
    struct slam_template *op = create(sources, 1);
    CHECK(op != NULL);
    CHECK(ends_with(op, states, "\x01|0"));
    CHECK(ends_with(op, states, "\x01|1"));
    slam_template_destroy(op);
}

TEST(text_is_drawn_without_an_envelope)
{
    struct slam_value_source src = {
        .kind = SLAM_VALUE_SEQUENCE, .lo = 9, .hi = 10, .step = 1};
    struct slam_partition_cursor state = {0};
    uint8_t out[5];

    literal("cn=", 3);
    value(0);
    struct slam_template *op = create(&src, 1);
    CHECK(op != NULL);
    CHECK_EQ(slam_template_max_text(op), 5);
    CHECK_EQ(slam_template_text(op, &state, &draw, out), 4);
    CHECK(memcmp(out, "cn=9", 4) == 0);
    CHECK_EQ(slam_template_text(op, &state, &draw, out), 5);
    slam_template_destroy(op);
    open_tlv(0x30);
    end_part();
    op = create(NULL, 0);
    CHECK(op != NULL);
    CHECK_EQ(slam_template_max_text(op), SIZE_MAX);
    slam_template_destroy(op);
}

TEST(abandon_takes_the_message_id_of_the_request_before)
{
    struct slam_value_source src = {.kind = SLAM_VALUE_MESSAGE_ID};
    struct slam_partition_cursor state = {0};
    struct slam_draw before = {.rng = &rng, .message_id_of_previous = 200};
    uint8_t pdu[64];

    open_tlv(0x50);
    value(0);
    end_part();
    struct slam_template *op = create(&src, 1);
    CHECK(op != NULL);
    CHECK_EQ(slam_template_encode(op, &state, &before, 201, pdu), 10);
    CHECK(memcmp(pdu + 6, "\x50\x02\x00\xc8", 4) == 0);
    slam_template_destroy(op);
}

/* The text of the program in p, which is then empty. */
static const char *
text_of(const struct slam_value_source *sources, size_t source_count)
{
    static uint8_t out[1 << 15];
    struct slam_partition_cursor states[4] = {0};
    struct slam_template *t = create(sources, source_count);
    size_t len;

    if (!t || slam_template_max_text(t) >= sizeof(out))
        return err;
    len = slam_template_text(t, states, &draw, out);
    out[len] = '\0';
    slam_template_destroy(t);
    return (const char *)out;
}

static void
raw(const char *bytes, size_t len)
{
    memcpy(p.bytes + p.len, bytes, len);
    p.len += len;
}

TEST(conditions_read_the_variables)
{
    for (uint32_t len = 0; len < 3; len++) {
        variables[1].len = len;
        memcpy(variables[1].text, "de", 2);
        raw("\x0b\x01\x00\x01", 4); /* IF variable 1 has a text */
        literal("1", 1);
        end_part();
        raw("\x0b\x01\x00\x00", 4); /* IF it has none */
        literal("0", 1);
        end_part();
        raw("\x0c\x01\x00\x02\x00\x00\x00" /* EQUAL */
            "de",
            9);
        literal("=", 1);
        end_part();
        literal(".", 1);
        CHECK(strcmp(text_of(NULL, 0), len == 0 ? "0." : len == 1 ? "1." : "1=.") == 0);
    }
}

TEST(loops_repeat_their_part)
{
    struct slam_value_source sources[] = {
        {.kind = SLAM_VALUE_SEQUENCE, .lo = 5, .hi = 9, .step = 1}};
    const char *text;
    bool seen[4] = {false};

    raw("\x0d\x08\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x09", 18); /* LOOP 8, 3 times */
    literal(":", 1);
    value(0);
    literal(" ", 1);
    end_part();
    CHECK(strcmp(text_of(sources, 1), "8:5 9:6 10:7 ") == 0);
    slam_rng_seed(&rng, 7, 0);
    raw("\x0e\x04\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x09\x04", 27);
    text = text_of(NULL, 0);
    CHECK_EQ(strlen(text), 4);
    for (int i = 0; i < 4; i++) {
        CHECK(text[i] >= '0' && text[i] < '4' && !seen[text[i] - '0']);
        seen[text[i] - '0'] = true;
    }
    raw("\x0d\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 17); /* no turn */
    value(0);
    end_part();
    literal(".", 1);
    CHECK(strcmp(text_of(sources, 1), ".") == 0);
}

TEST(text_stands_in_base64_and_in_forms)
{
    struct slam_value_source sources[] = {
        {.kind = SLAM_VALUE_VARIABLE, .lo = 0},
        {.kind = SLAM_VALUE_VARIABLE, .lo = 0, .width = 1},
        {.kind = SLAM_VALUE_VARIABLE, .lo = 0, .width = 2},
        {.kind = SLAM_VALUE_VARIABLE, .lo = 0, .hi = 2}};

    variables[0].len = 5;
    memcpy(variables[0].text, "a,*\xc3\xa9", 5);
    p.bytes[p.len++] = 0x0a;
    value(0);
    end_part();
    for (uint16_t i = 1; i < 4; i++) {
        literal(" ", 1);
        value(i);
    }
    CHECK(strcmp(text_of(sources, 4), "YSwqw6k= a\\,*\xc3\xa9 a_*\xc3\xa9 a,") == 0);
}

/* 30 { 04 "cn" 31 { values of variables 0 and 1 } }: values that are empty are left
 * out, and so is the attribute without values. */
TEST(optional_tlv_is_left_out_where_it_is_too_short)
{
    static const struct {
        const char *texts[2];
        const char *end;
        size_t len;
    } cases[] = {
        {{"a", "b"}, "\x30\x0c\x04\x02\x63n\x31\x06\x04\x01\x61\x04\x01\x62", 14},
        {{"", "b"}, "\x30\x09\x04\x02\x63n\x31\x03\x04\x01\x62", 11},
        {{"a", ""}, "\x30\x09\x04\x02\x63n\x31\x03\x04\x01\x61", 11},
        {{"", ""}, "", 0}};
    struct slam_value_source sources[] = {{.kind = SLAM_VALUE_VARIABLE, .lo = 0},
                                          {.kind = SLAM_VALUE_VARIABLE, .lo = 1}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct slam_partition_cursor states[2] = {0};
        struct slam_template *t;
        uint8_t *pdu;
        size_t len;

        raw("\x06\x30\x07\0\0\0", 6);
        literal("\x04\x02\x63n", 4);
        open_tlv(0x31);
        for (uint16_t j = 0; j < 2; j++) {
            variables[j].len = (uint32_t)strlen(cases[i].texts[j]);
            memcpy(variables[j].text, cases[i].texts[j], variables[j].len);
            raw("\x06\x04\x01\0\0\0", 6);
            value(j);
            end_part();
        }
        end_part();
        end_part();
        t = create(sources, 2);
        CHECK(t != NULL);
        pdu = encode(t, states, 1, &len);
        CHECK_EQ(len, 5 + cases[i].len);
        CHECK(memcmp(pdu + 5, cases[i].end, cases[i].len) == 0);
        free(pdu);
        slam_template_destroy(t);
    }
}
