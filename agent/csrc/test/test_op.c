/* SPDX-License-Identifier: Apache-2.0 */
#include "op.h"
#include "slam_err.h"
#include "slam_test.h"

#include <stdlib.h>

/* A program under construction. */
struct program {
    uint8_t bytes[SLAM_OP_MAX_PDU * 2];
    size_t len;
};

static struct program p;
static char err[200];
static const uint8_t a[] = "a";
static struct slam_rng rng;
static const struct slam_share alone = {.first = 0, .step = 1, .count = 1, .total = 1};
static struct slam_variable variables[2];
static const struct slam_draw draw = {
    .rng = &rng, .share = &alone, .variables = variables};

static void
literal(const void *bytes, size_t len)
{
    uint8_t *at = p.bytes + p.len;

    at[0] = 0x01;
    for (unsigned int i = 0; i < 4; i++)
        at[1 + i] = (uint8_t)(len >> (8 * i));
    memcpy(at + 5, bytes, len);
    p.len += 5 + len;
}

static void
value(uint16_t source)
{
    uint8_t code[] = {0x02, (uint8_t)source, (uint8_t)(source >> 8)};

    memcpy(p.bytes + p.len, code, sizeof(code));
    p.len += sizeof(code);
}

static void
open_tlv(uint8_t tag)
{
    p.bytes[p.len++] = 0x03;
    p.bytes[p.len++] = tag;
}

static void
chance(uint32_t ppm)
{
    p.bytes[p.len++] = 0x05;
    for (unsigned int i = 0; i < 4; i++)
        p.bytes[p.len++] = (uint8_t)(ppm >> (8 * i));
}

static void
end_chance(void)
{
    p.bytes[p.len++] = 0x06;
}

static void
close_tlv(void)
{
    p.bytes[p.len++] = 0x04;
}

static struct slam_op *
create(const struct slam_value_source *sources, size_t source_count)
{
    struct slam_op *op = NULL;

    err[0] = '\0';
    slam_op_create(p.bytes, p.len, sources, source_count, NULL, &op, err, sizeof(err));
    p.len = 0;
    return op;
}

/* Encodes to the end of a fresh buffer of exactly the promised sizes, so that a
 * sanitizer sees a byte too many. Returns the buffer; the PDU is its last *len bytes.
 */
static uint8_t *
encode(const struct slam_op *op, struct slam_value_state *states, int32_t message_id,
       size_t *len)
{
    size_t max = slam_op_max_pdu(op);
    char *scratch = malloc(slam_op_scratch_len(op) + 1);
    uint8_t *buf = malloc(max);

    *len = slam_op_encode(op, states, &draw, scratch, message_id, buf + max);
    memmove(buf, buf + max - *len, *len);
    free(scratch);
    return buf;
}

static void
test_unbind_request_is_byte_exact(void)
{
    static const uint8_t expected[] = {0x30, 0x05, 0x02, 0x01, 0x07, 0x42, 0x00};
    size_t len;

    literal("\x42\x00", 2);
    struct slam_op *op = create(NULL, 0);
    CHECK(op != NULL);
    uint8_t *pdu = encode(op, NULL, 7, &len);
    CHECK_EQ(len, sizeof(expected));
    CHECK(memcmp(pdu, expected, len) == 0);
    free(pdu);
    slam_op_destroy(op);
}

static void
test_message_id_takes_the_fewest_bytes_of_a_positive_integer(void)
{
    static const struct {
        int32_t id;
        size_t bytes;
    } cases[] = {{1, 1},       {127, 1},      {128, 2},      {255, 2},
                 {256, 2},     {32767, 2},    {32768, 3},    {8388607, 3},
                 {8388608, 4}, {16777216, 4}, {INT32_MAX, 4}};

    literal("\x42\x00", 2);
    struct slam_op *op = create(NULL, 0);
    CHECK(op != NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t len;
        uint8_t *pdu = encode(op, NULL, cases[i].id, &len);
        int64_t id = pdu[4] & 0x80 ? -1 : 0;

        CHECK_EQ(len, 6 + cases[i].bytes);
        CHECK_EQ(pdu[2], 0x02);
        CHECK_EQ(pdu[3], cases[i].bytes);
        for (size_t j = 0; j < cases[i].bytes; j++)
            id = id * 256 + pdu[4 + j];
        CHECK_EQ(id, cases[i].id);
        free(pdu);
    }
    slam_op_destroy(op);
}

static void
test_lengths_take_the_fewest_bytes(void)
{
    static const struct {
        size_t content;
        size_t header; /* tag and length */
    } cases[] = {{0, 2},   {127, 2},   {128, 3},  {255, 3},
                 {256, 4}, {65535, 4}, {65536, 5}};
    static uint8_t filler[65536];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t len, length = 0;

        open_tlv(0x04);
        literal(filler, cases[i].content);
        close_tlv();
        struct slam_op *op = create(NULL, 0);
        CHECK(op != NULL);
        uint8_t *pdu = encode(op, NULL, 1, &len);
        const uint8_t *tlv = pdu + len - cases[i].content - cases[i].header;
        CHECK_EQ(tlv[0], 0x04);
        if (cases[i].header == 2) {
            length = tlv[1];
        } else {
            CHECK_EQ(tlv[1], 0x80 + cases[i].header - 2);
            for (size_t j = 2; j < cases[i].header; j++)
                length = length << 8 | tlv[j];
        }
        CHECK_EQ(length, cases[i].content);
        free(pdu);
        slam_op_destroy(op);
    }
}

static void
test_values_are_drawn_in_order_and_fill_the_holes(void)
{
    /* compare-like nest: 6e { 04 "uid=user.N" 30 { 04 N' 04 N'' } } */
    struct slam_value_source src = {
        .kind = SLAM_VALUE_SEQUENCE, .lo = 98, .hi = 1000, .step = 1};
    struct slam_value_state state;
    static const uint8_t expected[] =
        "0\x1f\x02\x01\x05n\x1a\x04\x0buid=user.98\x30\x0b\x04\x02"
        "99\x04\x05x=100";
    size_t len;

    open_tlv(0x6e);
    open_tlv(0x04);
    literal("uid=user.", 9);
    value(0);
    close_tlv();
    open_tlv(0x30);
    open_tlv(0x04);
    value(0);
    close_tlv();
    open_tlv(0x04);
    literal("x=", 2);
    value(0);
    close_tlv();
    close_tlv();
    close_tlv();
    struct slam_op *op = create(&src, 1);
    CHECK(op != NULL);
    CHECK_EQ(slam_op_source_count(op), 1);
    CHECK_EQ(slam_op_source(op, 0)->lo, 98);
    slam_value_state_init(&src, &state);
    uint8_t *pdu = encode(op, &state, 5, &len);
    CHECK_EQ(len, sizeof(expected) - 1);
    CHECK(memcmp(pdu, expected, len) == 0);
    free(pdu);
    slam_op_destroy(op);
}

static void
test_longest_values_fit_the_promised_size(void)
{
    struct slam_value_source src = {
        .kind = SLAM_VALUE_STRING, .lo = 60000, .data = a, .data_len = 1};
    struct slam_value_state states[1];
    size_t len;

    slam_rng_seed(&rng, 0, 0);
    open_tlv(0x30);
    for (int i = 0; i < 17; i++) {
        open_tlv(0x04);
        value(0);
        close_tlv();
    }
    close_tlv();
    struct slam_op *op = create(&src, 1);
    CHECK(op != NULL);
    slam_value_state_init(&src, &states[0]);
    uint8_t *pdu = encode(op, states, INT32_MAX, &len);
    /* 17 values with 4 bytes of header, a 5 byte header, messageID 6, a 5 byte header
     */
    CHECK_EQ(len, 17 * 60004 + 5 + 6 + 5);
    CHECK(len <= slam_op_max_pdu(op));
    free(pdu);
    slam_op_destroy(op);
}

/* Whether the encoded request ends with these bytes. */
static bool
ends_with(const struct slam_op *op, struct slam_value_state *states, const char *text)
{
    size_t len, text_len = strlen(text);
    uint8_t *pdu = encode(op, states, 1, &len);
    bool same = len >= text_len && memcmp(pdu + len - text_len, text, text_len) == 0;

    free(pdu);
    return same;
}

static void
test_reference_repeats_the_text_of_an_earlier_value(void)
{
    struct slam_value_source sources[] = {
        {.kind = SLAM_VALUE_SEQUENCE, .lo = 98, .hi = 100, .step = 1},
        {.kind = SLAM_VALUE_VARIABLE, .lo = 1},
        {.kind = SLAM_VALUE_REF, .lo = 0},
        {.kind = SLAM_VALUE_REF, .lo = 1, .hi = 4}};
    struct slam_value_state states[4] = {0};

    for (uint16_t i = 0; i < 4; i++)
        value(i);
    struct slam_op *op = create(sources, 4);
    CHECK(op != NULL);
    CHECK_EQ(slam_op_variable_count(op), 2);
    /* "Zoë…": its fourth byte is the second of ë, so whole characters end before it */
    variables[1].len = 6;
    memcpy(variables[1].text, "Zo\xc3\xab!!", 6);
    CHECK(ends_with(op, states, "98Zo\xc3\xab!!98Zo\xc3\xab"));
    variables[1].len = 5;
    memcpy(variables[1].text, "Zoe\xc3\xab", 5);
    CHECK(ends_with(op, states,
                    "99Zoe\xc3\xab"
                    "99Zoe"));
    slam_op_destroy(op);
}

static void
test_reference_to_a_later_value_is_refused(void)
{
    struct slam_value_source ref = {.kind = SLAM_VALUE_REF, .lo = 0};

    value(0);
    struct slam_op *op = create(&ref, 1);
    CHECK(op == NULL);
    CHECK(strstr(err, "no earlier value") != NULL);
}

static void
test_part_is_there_as_often_as_its_chance_says(void)
{
    /* 30 { 04 "a" [30%: 04 { 04 "b" [50%: 04 "c"] }] } */
    enum { DRAWS = 100000 };
    struct slam_op *op;
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
    end_chance();
    close_tlv();
    end_chance();
    close_tlv();
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
    slam_op_destroy(op);
}

static void
test_absent_part_draws_no_value_and_leaves_references_empty(void)
{
    struct slam_value_source sources[] = {
        {.kind = SLAM_VALUE_SEQUENCE, .lo = 0, .hi = 9, .step = 1},
        {.kind = SLAM_VALUE_REF, .lo = 0}};
    struct slam_value_state states[2] = {0};

    chance(0);
    value(0);
    end_chance();
    value(1);
    literal("|", 1);
    value(0);
    struct slam_op *op = create(sources, 2);
    CHECK(op != NULL);
    CHECK(ends_with(op, states, "\x01|0"));
    CHECK(ends_with(op, states, "\x01|1"));
    slam_op_destroy(op);
}

static void
test_text_is_drawn_without_an_envelope_and_never_cut(void)
{
    struct slam_value_source src = {
        .kind = SLAM_VALUE_SEQUENCE, .lo = 9, .hi = 10, .step = 1};
    struct slam_value_state state = {0};
    char scratch[2];
    uint8_t out[5];

    literal("cn=", 3);
    value(0);
    struct slam_op *op = create(&src, 1);
    CHECK(op != NULL);
    CHECK_EQ(slam_op_max_text(op), 5);
    CHECK_EQ(slam_op_scratch_len(op), 2);
    CHECK_EQ(slam_op_text(op, &state, &draw, scratch, out, 4), 4);
    CHECK(memcmp(out, "cn=9", 4) == 0);
    CHECK_EQ(slam_op_text(op, &state, &draw, scratch, out, 4), -1);
    slam_op_destroy(op);
    open_tlv(0x30);
    close_tlv();
    op = create(NULL, 0);
    CHECK(op != NULL);
    CHECK_EQ(slam_op_max_text(op), SIZE_MAX);
    slam_op_destroy(op);
}

static void
test_abandon_takes_the_message_id_of_the_request_before(void)
{
    struct slam_value_source src = {.kind = SLAM_VALUE_MESSAGE_ID};
    struct slam_value_state state = {0};
    struct slam_draw before = {.rng = &rng, .message_id_of_previous = 200};
    uint8_t pdu[64];
    char scratch[4];

    open_tlv(0x50);
    value(0);
    close_tlv();
    struct slam_op *op = create(&src, 1);
    CHECK(op != NULL);
    CHECK_EQ(slam_op_encode(op, &state, &before, scratch, 201, pdu + 64), 10);
    CHECK(memcmp(pdu + 60, "\x50\x02\x00\xc8", 4) == 0);
    slam_op_destroy(op);
}

static void
expect_refused(const char *reason, const struct slam_value_source *sources,
               size_t source_count)
{
    struct slam_op *op = create(sources, source_count);

    CHECK(op == NULL);
    CHECK(strstr(err, reason) != NULL);
}

static void
test_bad_programs_are_refused_with_the_reason(void)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *reason;
    } cases[] = {
        {"", 0, "has 1 to"},
        {"\x00", 1, "byte 0: unknown instruction"},
        {"\x07", 1, "unknown instruction"},
        {"\x05", 1, "millionths"},
        {"\x05\x41\x42\x0f\x00\x06", 6, "millionths"}, /* 1000001 */
        {"\x05\x00\x00\x00\x00", 5, "1 TLVs are not closed"},
        {"\x06", 1, "byte 0: no optional part is open"},
        {"\x03\x30\x06", 3, "byte 2: TLVs and optional parts overlap"},
        {"\x05\x00\x00\x00\x00\x04", 6, "overlap"},
        {"\x01\x00\x00\x00\x00", 5, "empty"},
        {"\x01", 1, "longer than the program"},
        {"\x01\x01\x00\x00\x00", 5, "longer than the program"},
        {"\x01\xff\xff\xff\xff\x00", 6, "longer than the program"},
        {"\x02\x00\x00", 3, "no such value source"},
        {"\x02\x00", 2, "no such value source"},
        {"\x03", 1, "tag is missing"},
        {"\x03\x1f\x04", 3, "tags of several bytes"},
        {"\x03\x7f\x04", 3, "tags of several bytes"},
        {"\x03\x30", 2, "1 TLVs are not closed"},
        {"\x03\x30\x04\x04", 4, "byte 3: no TLV is open"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        memcpy(p.bytes, cases[i].bytes, cases[i].len);
        p.len = cases[i].len;
        expect_refused(cases[i].reason, NULL, 0);
    }
}

static void
test_program_beyond_a_bound_is_refused(void)
{
    struct slam_value_source digit = {
        .kind = SLAM_VALUE_UNIFORM, .lo = 0, .hi = 9, .step = 1};
    struct slam_value_source text = {
        .kind = SLAM_VALUE_STRING, .lo = SLAM_VALUE_MAX_LEN, .data = a, .data_len = 1};
    static uint8_t filler[SLAM_OP_MAX_PDU];
    static struct slam_value_source many[SLAM_OP_MAX_VALUES + 1];

    for (unsigned int i = 0; i <= SLAM_OP_MAX_DEPTH; i++)
        open_tlv(0x30);
    expect_refused("nested too deep", NULL, 0);
    for (unsigned int i = 0; i <= SLAM_OP_MAX_VALUES; i++)
        value(0);
    expect_refused("too many values", &digit, 1);
    for (unsigned int i = 0; i <= SLAM_OP_MAX_CHANCES; i++) {
        chance(1);
        end_chance();
    }
    expect_refused("too many optional parts", NULL, 0);
    for (int i = 0; i < 17; i++)
        value(0);
    expect_refused("too long", &text, 1);
    literal(filler, sizeof(filler));
    expect_refused("too long", NULL, 0);
    for (size_t i = 0; i < SLAM_OP_MAX_PDU / 4; i++) {
        open_tlv(0x30);
        close_tlv();
    }
    expect_refused("too long", NULL, 0);
    literal("\x42\x00", 2);
    expect_refused("at most 256 value sources", many, SLAM_OP_MAX_VALUES + 1);
    digit.step = 0;
    value(0);
    expect_refused("step", &digit, 1);
}

static void
test_deepest_nesting_is_encoded(void)
{
    size_t len;

    for (unsigned int i = 0; i < SLAM_OP_MAX_DEPTH; i++)
        open_tlv(0x30);
    for (unsigned int i = 0; i < SLAM_OP_MAX_DEPTH; i++)
        close_tlv();
    struct slam_op *op = create(NULL, 0);
    CHECK(op != NULL);
    uint8_t *pdu = encode(op, NULL, 1, &len);
    CHECK_EQ(len, 5 + 2 * SLAM_OP_MAX_DEPTH);
    for (size_t i = 0; i < SLAM_OP_MAX_DEPTH; i++) {
        CHECK_EQ(pdu[5 + 2 * i], 0x30);
        CHECK_EQ(pdu[6 + 2 * i], len - 7 - 2 * i);
    }
    free(pdu);
    slam_op_destroy(op);
}

int
main(void)
{
    RUN(test_unbind_request_is_byte_exact);
    RUN(test_message_id_takes_the_fewest_bytes_of_a_positive_integer);
    RUN(test_lengths_take_the_fewest_bytes);
    RUN(test_values_are_drawn_in_order_and_fill_the_holes);
    RUN(test_longest_values_fit_the_promised_size);
    RUN(test_reference_repeats_the_text_of_an_earlier_value);
    RUN(test_reference_to_a_later_value_is_refused);
    RUN(test_part_is_there_as_often_as_its_chance_says);
    RUN(test_absent_part_draws_no_value_and_leaves_references_empty);
    RUN(test_text_is_drawn_without_an_envelope_and_never_cut);
    RUN(test_abandon_takes_the_message_id_of_the_request_before);
    RUN(test_bad_programs_are_refused_with_the_reason);
    RUN(test_program_beyond_a_bound_is_refused);
    RUN(test_deepest_nesting_is_encoded);
    return SLAM_TEST_EXIT();
}
