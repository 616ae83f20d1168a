/* SPDX-License-Identifier: Apache-2.0 */
#include "slam_err.h"
#include "slam_test.h"
#include "values.h"

#include <stdlib.h>

static struct slam_rng rng;

static struct slam_value_source
number_source(enum slam_value_kind kind, int64_t lo, int64_t hi, int64_t step,
              uint32_t width)
{
    struct slam_value_source src = {
        .kind = kind, .lo = lo, .hi = hi, .step = step, .width = width};

    return src;
}

static int
emit_number(const struct slam_value_source *src, struct slam_value_state *state)
{
    char text[64] = "";
    size_t len = slam_value_emit(src, state, &rng, text);

    text[len] = '\0';
    return atoi(text);
}

static void
test_sequence_counts_with_step_and_starts_again(void)
{
    /* 10, 13, 16, 19: 22 lies beyond 20 */
    struct slam_value_source src = number_source(SLAM_VALUE_SEQUENCE, 10, 20, 3, 0);
    struct slam_value_state state;
    static const int expected[] = {10, 13, 16, 19, 10, 13};

    CHECK_EQ(slam_value_members(&src), 4);
    slam_value_state_init(&src, &state, 0, 1);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        CHECK_EQ(emit_number(&src, &state), expected[i]);
}

static void
test_participants_emit_each_member_once_per_round(void)
{
    enum { MEMBERS = 1000, PARTICIPANTS = 7 };
    struct slam_value_source src =
        number_source(SLAM_VALUE_SEQUENCE, 0, MEMBERS - 1, 1, 0);
    int emitted[MEMBERS] = {0};

    for (uint32_t p = 0; p < PARTICIPANTS; p++) {
        struct slam_value_state state;
        int share = MEMBERS / PARTICIPANTS + (p < MEMBERS % PARTICIPANTS);

        slam_value_state_init(&src, &state, p, PARTICIPANTS);
        for (int i = 0; i < share; i++)
            emitted[emit_number(&src, &state)]++;
        CHECK_EQ(emit_number(&src, &state), p); /* the next round */
    }
    for (int i = 0; i < MEMBERS; i++)
        CHECK_EQ(emitted[i], 1);
}

static void
test_participants_beyond_the_members_share_them(void)
{
    struct slam_value_source src = number_source(SLAM_VALUE_SEQUENCE, 5, 6, 1, 0);
    struct slam_value_state state;

    slam_value_state_init(&src, &state, 3, 4);
    CHECK_EQ(emit_number(&src, &state), 6); /* member 3 mod 2 */
    CHECK_EQ(emit_number(&src, &state), 6);
}

static void
test_uniform_draws_every_member_and_nothing_else(void)
{
    struct slam_value_source src = number_source(SLAM_VALUE_UNIFORM, -4, 5, 3, 0);
    struct slam_value_state state;
    int seen[4] = {0}; /* -4, -1, 2, 5 */

    slam_rng_seed(&rng, 1, 0);
    slam_value_state_init(&src, &state, 0, 1);
    for (int i = 0; i < 1000; i++) {
        int value = emit_number(&src, &state);

        CHECK(value >= -4 && value <= 5 && (value + 4) % 3 == 0);
        seen[(value + 4) / 3]++;
    }
    for (int i = 0; i < 4; i++)
        CHECK(seen[i] > 100);
}

static void
test_numbers_are_padded_to_their_width_and_never_exceed_max_len(void)
{
    static const struct {
        int64_t value;
        uint32_t width;
        const char *text;
    } cases[] = {
        {0, 0, "0"},
        {7, 4, "0007"},
        {12345, 4, "12345"},
        {-7, 0, "-7"},
        {-7, 3, "-007"},
        {INT64_MAX, 0, "9223372036854775807"},
        {INT64_MIN, 0, "-9223372036854775808"},
        {INT64_MIN, 21, "-009223372036854775808"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct slam_value_source src = number_source(SLAM_VALUE_UNIFORM, cases[i].value,
                                                     cases[i].value, 1, cases[i].width);
        struct slam_value_state state;
        char text[64] = "";

        slam_value_state_init(&src, &state, 0, 1);
        CHECK_EQ(slam_value_emit(&src, &state, &rng, text), strlen(cases[i].text));
        CHECK(strcmp(text, cases[i].text) == 0);
        CHECK_EQ(slam_value_max_len(&src), strlen(cases[i].text));
    }
}

static void
test_longest_number_may_be_at_either_end_of_the_range(void)
{
    struct slam_value_source src = number_source(SLAM_VALUE_UNIFORM, -1000, 5, 1, 0);

    CHECK_EQ(slam_value_max_len(&src), 5);
    src = number_source(SLAM_VALUE_UNIFORM, -1, 12345, 1, 0);
    CHECK_EQ(slam_value_max_len(&src), 5);
}

static void
test_string_uses_its_charset_alone_and_all_of_it(void)
{
    struct slam_value_source src = {
        .kind = SLAM_VALUE_STRING, .lo = 1000, .charset = "xyz", .charset_len = 3};
    struct slam_value_state state;
    char text[1001] = "";

    slam_rng_seed(&rng, 2, 0);
    slam_value_state_init(&src, &state, 0, 1);
    CHECK_EQ(slam_value_max_len(&src), 1000);
    CHECK_EQ(slam_value_emit(&src, &state, &rng, text), 1000);
    CHECK_EQ(strspn(text, "xyz"), 1000);
    CHECK(strchr(text, 'x') != NULL && strchr(text, 'y') != NULL &&
          strchr(text, 'z') != NULL);
}

static void
test_source_out_of_range_is_refused_with_the_reason(void)
{
    struct slam_value_source no_charset = {.kind = SLAM_VALUE_STRING, .lo = 5};
    struct slam_value_source large_charset = {
        .kind = SLAM_VALUE_STRING, .lo = 5, .charset_len = 257};
    struct slam_value_source long_string = {
        .kind = SLAM_VALUE_STRING, .lo = SLAM_VALUE_MAX_LEN + 1, .charset_len = 1};
    struct slam_value_source no_string = {
        .kind = SLAM_VALUE_STRING, .lo = 0, .charset_len = 1};
    const struct {
        struct slam_value_source src;
        const char *reason;
    } cases[] = {
        {number_source(SLAM_VALUE_UNIFORM, 2, 1, 1, 0), "range 2..1 is empty"},
        {number_source(SLAM_VALUE_SEQUENCE, 0, 1, 0, 0), "step"},
        {number_source(SLAM_VALUE_SEQUENCE, 0, 1, -1, 0), "step"},
        {number_source(SLAM_VALUE_UNIFORM, INT64_MIN, INT64_MAX, 1, 0), "members"},
        {number_source(SLAM_VALUE_UNIFORM, 0, 1, 1, SLAM_VALUE_MAX_LEN), "digits"},
        {number_source((enum slam_value_kind)9, 0, 1, 1, 0), "unknown kind"},
        {no_charset, "charset"},
        {large_charset, "charset"},
        {long_string, "65537"},
        {no_string, "got 0"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char err[200] = "";

        CHECK_EQ(slam_value_source_check(&cases[i].src, err, sizeof(err)), SLAM_EINVAL);
        CHECK(strstr(err, cases[i].reason) != NULL);
    }
}

static void
test_widest_range_that_is_allowed_works(void)
{
    struct slam_value_source src =
        number_source(SLAM_VALUE_SEQUENCE, INT64_MIN, INT64_MAX, 3, 0);
    struct slam_value_state state;
    char err[200] = "";
    char text[64] = "";

    CHECK_EQ(slam_value_source_check(&src, err, sizeof(err)), SLAM_OK);
    slam_value_state_init(&src, &state, UINT32_MAX - 1, UINT32_MAX);
    /* INT64_MIN + 3 * (2^32 - 2) */
    slam_value_emit(&src, &state, &rng, text);
    CHECK(strcmp(text, "-9223372023969873926") == 0);
}

int
main(void)
{
    RUN(test_sequence_counts_with_step_and_starts_again);
    RUN(test_participants_emit_each_member_once_per_round);
    RUN(test_participants_beyond_the_members_share_them);
    RUN(test_uniform_draws_every_member_and_nothing_else);
    RUN(test_numbers_are_padded_to_their_width_and_never_exceed_max_len);
    RUN(test_longest_number_may_be_at_either_end_of_the_range);
    RUN(test_string_uses_its_charset_alone_and_all_of_it);
    RUN(test_source_out_of_range_is_refused_with_the_reason);
    RUN(test_widest_range_that_is_allowed_works);
    return SLAM_TEST_EXIT();
}
