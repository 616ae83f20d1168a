/* SPDX-License-Identifier: Apache-2.0 */
#include "slam_test.h"
#include "template_program.h"

#include <stdlib.h>

TEST(unbind_request_is_byte_exact)
{
    static const uint8_t expected[] = {0x30, 0x05, 0x02, 0x01, 0x07, 0x42, 0x00};
    size_t len;

    literal("\x42\x00", 2);
    struct slam_template *op = create(NULL, 0);
    CHECK(op != NULL);
    uint8_t *pdu = encode(op, NULL, 7, &len);
    CHECK_EQ(len, sizeof(expected));
    CHECK(memcmp(pdu, expected, len) == 0);
    free(pdu);
    slam_template_destroy(op);
}

TEST(message_id_takes_the_fewest_bytes_of_a_positive_integer)
{
    static const struct {
        int32_t id;
        size_t bytes;
    } cases[] = {{1, 1},       {127, 1},      {128, 2},      {255, 2},
                 {256, 2},     {32767, 2},    {32768, 3},    {8388607, 3},
                 {8388608, 4}, {16777216, 4}, {INT32_MAX, 4}};

    literal("\x42\x00", 2);
    struct slam_template *op = create(NULL, 0);
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
    slam_template_destroy(op);
}

TEST(lengths_take_the_fewest_bytes)
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
        end_part();
        struct slam_template *op = create(NULL, 0);
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
        slam_template_destroy(op);
    }
}

TEST(values_are_drawn_in_order_and_fill_the_program)
{
    /* compare-like nest: 6e { 04 "uid=user.N" 30 { 04 N' 04 N'' } } */
    struct slam_value_source src = {
        .kind = SLAM_VALUE_SEQUENCE, .lo = 98, .hi = 1000, .step = 1};
    struct slam_partition_cursor state = {0};
    static const uint8_t expected[] =
        "0\x1f\x02\x01\x05n\x1a\x04\x0buid=user.98\x30\x0b\x04\x02"
        "99\x04\x05x=100";
    size_t len;

    open_tlv(0x6e);
    open_tlv(0x04);
    literal("uid=user.", 9);
    value(0);
    end_part();
    open_tlv(0x30);
    open_tlv(0x04);
    value(0);
    end_part();
    open_tlv(0x04);
    literal("x=", 2);
    value(0);
    end_part();
    end_part();
    end_part();
    struct slam_template *op = create(&src, 1);
    CHECK(op != NULL);
    CHECK_EQ(slam_template_source_count(op), 1);
    uint8_t *pdu = encode(op, &state, 5, &len);
    CHECK_EQ(len, sizeof(expected) - 1);
    CHECK(memcmp(pdu, expected, len) == 0);
    free(pdu);
    slam_template_destroy(op);
}

TEST(longest_values_fit_the_promised_size)
{
    struct slam_value_source src = {
        .kind = SLAM_VALUE_STRING, .lo = 60000, .data = a, .data_len = 1};
    struct slam_partition_cursor states[1] = {0};
    size_t len;

    slam_rng_seed(&rng, 0, 0);
    open_tlv(0x30);
    for (int i = 0; i < 17; i++) {
        open_tlv(0x04);
        value(0);
        end_part();
    }
    end_part();
    struct slam_template *op = create(&src, 1);
    CHECK(op != NULL);
    uint8_t *pdu = encode(op, states, INT32_MAX, &len);
    /* 17 values with 4 bytes of header, a 5 byte header, messageID 6, a 5 byte header
     */
    CHECK_EQ(len, 17 * 60004 + 5 + 6 + 5);
    CHECK(len <= slam_template_max_pdu(op));
    free(pdu);
    slam_template_destroy(op);
}

static void
expect_refused(const char *reason, const struct slam_value_source *sources,
               size_t source_count)
{
    struct slam_template *op = create(sources, source_count);

    CHECK(op == NULL);
    CHECK(strstr(err, reason) != NULL);
}

TEST(bad_programs_are_refused_with_the_reason)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *reason;
    } cases[] = {
        {"", 0, "has 1 to"},
        {"\x00", 1, "byte 0: unknown instruction"},
        {"\x14", 1, "unknown instruction"},
        {"\x05", 1, "operand is missing"},
        {"\x05\x41\x42\x0f\x00\x04", 6, "millionths"}, /* 1000001 */
        {"\x05\x00\x00\x00\x00", 5, "a part is not ended"},
        {"\x04", 1, "byte 0: nothing is open"},
        {"\x03\x30\x04\x04", 4, "byte 3: nothing is open"},
        {"\x01\x00\x00\x00\x00", 5, "empty"},
        {"\x01", 1, "operand is missing"},
        {"\x01\x01\x00\x00\x00", 5, "longer than the program"},
        {"\x01\xff\xff\xff\xff\x00", 6, "longer than the program"},
        {"\x02\x00\x00", 3, "no such value source"},
        {"\x02\x00", 2, "operand is missing"},
        {"\x03", 1, "operand is missing"},
        {"\x03\x1f\x04", 3, "tags of several bytes"},
        {"\x06\x7f\x01\x00\x00\x00\x04", 7, "tags of several bytes"},
        {"\x06\x30\x01\x00\x00", 5, "operand is missing"},
        {"\x03\x30", 2, "a part is not ended"},
        {"\x09", 1, "there is no loop"},
        {"\x0b\x00\x00\x02\x04", 5, "a slot has a text, 1, or none, 0"},
        {"\x0f\x00\x00\x04", 4, "of entries alone"},
        {"\x13", 1, "of entries alone"},
        {"\x0d\0\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x04", 18, "a loop has no text"},
        {"\x0d\0\0\0\0\0\0\0\0\xff\xff\xff\xff\0\0\0\0\x09\x04", 19, "too long"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        memcpy(p.bytes, cases[i].bytes, cases[i].len);
        p.len = cases[i].len;
        expect_refused(cases[i].reason, NULL, 0);
    }
}

TEST(program_beyond_a_bound_is_refused)
{
    struct slam_value_source digit = {
        .kind = SLAM_VALUE_UNIFORM, .lo = 0, .hi = 9, .step = 1};
    struct slam_value_source text = {
        .kind = SLAM_VALUE_STRING, .lo = SLAM_VALUE_MAX_LEN, .data = a, .data_len = 1};
    static uint8_t filler[SLAM_TEMPLATE_PDU_MAX];
    static struct slam_value_source many[SLAM_TEMPLATE_SOURCES_MAX + 1];

    for (unsigned int i = 0; i <= SLAM_TEMPLATE_DEPTH_MAX; i++)
        open_tlv(0x30);
    expect_refused("nested too deep", NULL, 0);
    for (int i = 0; i < 17; i++)
        value(0);
    expect_refused("too long", &text, 1);
    literal(filler, sizeof(filler));
    expect_refused("too long", NULL, 0);
    for (size_t i = 0; i < SLAM_TEMPLATE_PDU_MAX / 2; i++) {
        open_tlv(0x30);
        end_part();
    }
    expect_refused("too long", NULL, 0);
    literal("\x42\x00", 2);
    expect_refused("65535 value sources", many, SLAM_TEMPLATE_SOURCES_MAX + 1);
    digit.step = 0;
    value(0);
    expect_refused("step", &digit, 1);
}

TEST(deepest_nesting_is_encoded)
{
    size_t len;

    for (unsigned int i = 0; i < SLAM_TEMPLATE_DEPTH_MAX; i++)
        open_tlv(0x30);
    for (unsigned int i = 0; i < SLAM_TEMPLATE_DEPTH_MAX; i++)
        end_part();
    struct slam_template *op = create(NULL, 0);
    CHECK(op != NULL);
    uint8_t *pdu = encode(op, NULL, 1, &len);
    CHECK_EQ(len, 5 + 2 * SLAM_TEMPLATE_DEPTH_MAX);
    for (size_t i = 0; i < SLAM_TEMPLATE_DEPTH_MAX; i++) {
        CHECK_EQ(pdu[5 + 2 * i], 0x30);
        CHECK_EQ(pdu[6 + 2 * i], len - 7 - 2 * i);
    }
    free(pdu);
    slam_template_destroy(op);
}
