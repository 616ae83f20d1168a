/* SPDX-License-Identifier: Apache-2.0 */
#include "op_program.h"
#include "slam_test.h"

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

int
main(void)
{
    RUN(test_reference_repeats_the_text_of_an_earlier_value);
    RUN(test_reference_to_a_later_value_is_refused);
    RUN(test_part_is_there_as_often_as_its_chance_says);
    RUN(test_absent_part_draws_no_value_and_leaves_references_empty);
    RUN(test_text_is_drawn_without_an_envelope_and_never_cut);
    RUN(test_abandon_takes_the_message_id_of_the_request_before);
    return SLAM_TEST_EXIT();
}
