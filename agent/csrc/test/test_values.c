/* SPDX-License-Identifier: Apache-2.0 */
/* Distributions are tested by goodness of fit in tests/engine/test_values.py, which
 * draws through this code; here are the exact cases and the edges. */
#include "core/slam_err.h"
#include "slam_test.h"
#include "template/values.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

static struct slam_rng rng;
static struct slam_partition partition = {
    .first = 0, .step = 1, .count = 1, .total = 1};
static struct slam_variable variable;
static struct slam_draw draw = {
    .rng = &rng, .partition = &partition, .variables = &variable};
static char err[SLAM_ERR_LEN];

static struct slam_value_source
prepared(struct slam_value_source src)
{
    snprintf(err, SLAM_ERR_LEN, "%s", "");
    slam_value_source_prepare(&src, NULL, err);
    return src;
}

static struct slam_value_source
number_source(enum slam_value_kind kind, int64_t lo, int64_t hi, int64_t step,
              uint32_t width)
{
    return prepared((struct slam_value_source){
        .kind = kind, .lo = lo, .hi = hi, .step = step, .width = width});
}

static struct slam_value_source
string_source(int64_t lo, int64_t hi, const char *charset)
{
    return prepared((struct slam_value_source){.kind = SLAM_VALUE_STRING,
                                               .lo = lo,
                                               .hi = hi,
                                               .data = (const uint8_t *)charset,
                                               .data_len = strlen(charset)});
}

/* The next text, terminated, in a buffer of its own. */
static const char *
next(const struct slam_value_source *src, struct slam_partition_cursor *state)
{
    static char text[SLAM_VALUE_MAX_LEN + 1];
    size_t len =
        (size_t)(slam_value_put(src, state, &draw, (uint8_t *)text) - (uint8_t *)text);

    text[len] = '\0';
    return len <= src->max_len ? text : "longer than promised";
}

static void
use_partition(uint64_t first, uint64_t step, uint64_t count, uint64_t total)
{
    partition = (struct slam_partition){
        .first = first, .step = step, .count = count, .total = total};
}

static void
set_variable(const char *text, size_t len)
{
    memcpy(variable.text, text, len);
    variable.len = (uint32_t)len;
}

TEST(sequence_counts_with_step_and_starts_again)
{
    /* 10, 13, 16, 19: 22 lies beyond 20 */
    struct slam_value_source src = number_source(SLAM_VALUE_SEQUENCE, 10, 20, 3, 0);
    struct slam_partition_cursor state = {0};
    static const int expected[] = {10, 13, 16, 19, 10, 13};

    use_partition(0, 1, 1, 1);
    CHECK_EQ(src.members, 4);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        CHECK_EQ(atoi(next(&src, &state)), expected[i]);
}

TEST(sequence_from_high_to_low_counts_down)
{
    /* 5, 2, -1 */
    struct slam_value_source src = number_source(SLAM_VALUE_SEQUENCE, 5, -3, 3, 2);
    struct slam_partition_cursor state = {0};

    use_partition(0, 1, 1, 1);
    CHECK_EQ(src.members, 3);
    CHECK(strcmp(next(&src, &state), "05") == 0);
    CHECK(strcmp(next(&src, &state), "02") == 0);
    CHECK(strcmp(next(&src, &state), "-01") == 0);
    CHECK(strcmp(next(&src, &state), "05") == 0);
}

TEST(shares_emit_each_member_once_per_round)
{
    /* 12 connections: agents of 7 and 5, the first with three workers of 3, 2 and 2 */
    static const uint64_t partitions[][3] = {
        {0, 3, 3}, {1, 3, 2}, {2, 3, 2}, {7, 1, 5}};
    enum { MEMBERS = 1009, CONNECTIONS = 12 };
    struct slam_value_source src =
        number_source(SLAM_VALUE_SEQUENCE, 0, MEMBERS - 1, 1, 0);
    int emitted[MEMBERS] = {0};

    for (size_t i = 0; i < sizeof(partitions) / sizeof(partitions[0]); i++) {
        struct slam_partition_cursor state = {0};

        use_partition(partitions[i][0], partitions[i][1], partitions[i][2],
                      CONNECTIONS);
        for (uint64_t n = slam_partition_count(&partition, MEMBERS); n > 0; n--)
            emitted[atoi(next(&src, &state))]++;
    }
    for (int i = 0; i < MEMBERS; i++)
        CHECK_EQ(emitted[i], 1);
}

TEST(fewer_members_than_connections_are_shared)
{
    struct slam_value_source src = number_source(SLAM_VALUE_SEQUENCE, 5, 6, 1, 0);
    struct slam_partition_cursor state = {0};

    use_partition(3, 1, 1, 4);
    CHECK_EQ(atoi(next(&src, &state)), 6); /* x = 3, 7, …: member 3 mod 2 */
    CHECK_EQ(atoi(next(&src, &state)), 6);
}

TEST(unique_numbers_step_over_those_of_other_sources)
{
    struct slam_value_source src = prepared((struct slam_value_source){
        .kind = SLAM_VALUE_UNIQUE, .lo = 2, .step = 5, .width = 4});
    struct slam_partition_cursor state = {0};

    use_partition(1, 1, 1, 3); /* x = 1, 4, 7 */
    CHECK(strcmp(next(&src, &state), "0007") == 0);
    CHECK(strcmp(next(&src, &state), "0022") == 0);
    CHECK(strcmp(next(&src, &state), "0037") == 0);
}

TEST(uniform_draws_every_member_and_nothing_else)
{
    struct slam_value_source src = number_source(SLAM_VALUE_UNIFORM, -4, 5, 3, 0);
    int seen[4] = {0}; /* -4, -1, 2, 5 */

    slam_rng_seed(&rng, 1, 0);
    for (int i = 0; i < 1000; i++) {
        int value = atoi(next(&src, NULL));

        CHECK(value >= -4 && value <= 5 && (value + 4) % 3 == 0);
        seen[(value + 4) / 3]++;
    }
    for (int i = 0; i < 4; i++)
        CHECK(seen[i] > 100);
}

TEST(numbers_are_padded_to_their_width_and_never_exceed_max_len)
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

        CHECK(strcmp(next(&src, NULL), cases[i].text) == 0);
        CHECK_EQ(src.max_len, strlen(cases[i].text));
    }
}

TEST(drawn_numbers_stay_in_their_range)
{
    static const enum slam_value_kind kinds[] = {SLAM_VALUE_ZIPF, SLAM_VALUE_GAUSS,
                                                 SLAM_VALUE_HOT};
    static const double exponents[] = {0.01, 0.5, 0.99, 1, 1.01, 2, 64};

    slam_rng_seed(&rng, 3, 0);
    for (size_t k = 0; k < 3; k++)
        for (size_t e = 0; e < sizeof(exponents) / sizeof(exponents[0]); e++) {
            struct slam_value_source src = prepared(
                (struct slam_value_source){.kind = kinds[k],
                                           .lo = 10,
                                           .hi = 10 + (INT64_C(1) << (1 + 7 * e)),
                                           .step = 1,
                                           .a = k == 0 ? exponents[e] : 0.3,
                                           .b = 0.5});

            CHECK(err[0] == '\0');
            for (int i = 0; i < 2000; i++) {
                int64_t value = atoll(next(&src, NULL));

                CHECK(value >= src.lo && value <= src.hi);
            }
        }
}

TEST(hot_members_are_the_lowest)
{
    struct slam_value_source src = prepared((struct slam_value_source){
        .kind = SLAM_VALUE_HOT, .lo = 0, .hi = 9, .step = 1, .a = 0.2, .b = 1});

    for (int i = 0; i < 100; i++)
        CHECK(atoi(next(&src, NULL)) < 2);
    slam_value_source_release(&src);
    src.b = 0;
    src = prepared(src);
    for (int i = 0; i < 100; i++)
        CHECK(atoi(next(&src, NULL)) >= 2);
}

TEST(string_uses_its_charset_alone_and_all_of_it)
{
    struct slam_value_source src = string_source(1000, 0, "xyz");
    const char *text;

    slam_rng_seed(&rng, 2, 0);
    CHECK_EQ(src.max_len, 1000);
    text = next(&src, NULL);
    CHECK_EQ(strlen(text), 1000);
    CHECK_EQ(strspn(text, "xyz"), 1000);
    CHECK(strchr(text, 'x') != NULL && strchr(text, 'y') != NULL &&
          strchr(text, 'z') != NULL);
    slam_value_source_release(&src);
}

TEST(string_of_a_range_has_every_length_of_it)
{
    struct slam_value_source src = string_source(0, 3, "a");
    int seen[4] = {0};

    for (int i = 0; i < 400; i++)
        seen[strlen(next(&src, NULL))]++;
    for (int i = 0; i < 4; i++)
        CHECK(seen[i] > 50);
    slam_value_source_release(&src);
}

TEST(times_are_written_in_their_format)
{
    static const struct {
        int64_t ms;
        int64_t format;
        const char *text;
    } cases[] = {
        {1514862245678, SLAM_TIMESTAMP_GENERALIZED, "20180102030405.678Z"},
        {1514862245678, SLAM_TIMESTAMP_MILLISECONDS, "1514862245678"},
        {1514862245678, SLAM_TIMESTAMP_SECONDS, "1514862245"},
        {-1, SLAM_TIMESTAMP_GENERALIZED, "19691231235959.999Z"},
        {-1, SLAM_TIMESTAMP_SECONDS, "-1"},
        {951782400000, SLAM_TIMESTAMP_GENERALIZED, "20000229000000.000Z"},
        {-62135596800000, SLAM_TIMESTAMP_GENERALIZED, "00010101000000.000Z"},
        {253402300799999, SLAM_TIMESTAMP_GENERALIZED, "99991231235959.999Z"},
        {4107542399999, SLAM_TIMESTAMP_GENERALIZED, "21000228235959.999Z"},
        {4107542400000, SLAM_TIMESTAMP_GENERALIZED, "21000301000000.000Z"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct slam_value_source src =
            prepared((struct slam_value_source){.kind = SLAM_VALUE_TIMESTAMP,
                                                .lo = cases[i].ms,
                                                .hi = cases[i].ms,
                                                .step = cases[i].format});

        CHECK(strcmp(next(&src, NULL), cases[i].text) == 0);
        slam_value_source_release(&src);
    }
}

TEST(time_without_bounds_is_now)
{
    struct slam_value_source src = prepared((struct slam_value_source){
        .kind = SLAM_VALUE_TIMESTAMP, .step = SLAM_TIMESTAMP_SECONDS});
    int64_t before = (int64_t)time(NULL);
    int64_t drawn = atoll(next(&src, NULL));

    CHECK(before - 1 <= drawn && drawn <= (int64_t)time(NULL) + 1);
}

TEST(uuid_has_its_form_version_and_variant)
{
    struct slam_value_source src =
        prepared((struct slam_value_source){.kind = SLAM_VALUE_UUID});
    const char *text;
    char first[37];

    slam_rng_seed(&rng, 5, 0);
    text = next(&src, NULL);
    CHECK_EQ(strlen(text), 36);
    memcpy(first, text, sizeof(first));
    CHECK_EQ(strspn(first, "0123456789abcdef-"), 36);
    for (int i = 0; i < 36; i++)
        CHECK_EQ(first[i] == '-', i == 8 || i == 13 || i == 18 || i == 23);
    CHECK_EQ(first[14], '4');
    CHECK(strchr("89ab", first[19]) != NULL);
    CHECK(strcmp(first, next(&src, NULL)) != 0);
}

TEST(variable_is_escaped_for_a_dn_where_it_says_so)
{
    static const struct {
        const char *text;
        size_t len;
        const char *escaped;
    } cases[] = {
        {"plain", 5, "plain"},
        {"Smith, John+Co", 14, "Smith\\, John\\+Co"},
        {" both ends ", 11, "\\ both ends\\ "},
        {"#1 \"\\<>;=#", 10, "\\#1 \\\"\\\\\\<\\>\\;=#"},
        {" ", 1, "\\ "},
        {"\0", 1, "\\00"},
        {"", 0, ""},
    };
    uint8_t out[64];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct slam_value_source src = prepared(
            (struct slam_value_source){.kind = SLAM_VALUE_VARIABLE, .width = 1});

        set_variable(cases[i].text, cases[i].len);
        CHECK(strcmp(next(&src, NULL), cases[i].escaped) == 0);
        src.width = 0;
        CHECK_EQ(slam_value_put(&src, NULL, &draw, out) - out, cases[i].len);
    }
}

TEST(variable_is_cut_between_characters)
{
    static const char *const cuts[] = {"a", "a", "a\xc3\xbc", "a\xc3\xbc,"};

    set_variable("a\xc3\xbc,", 4);
    for (int64_t limit = 1; limit <= 4; limit++) {
        struct slam_value_source src = prepared(
            (struct slam_value_source){.kind = SLAM_VALUE_VARIABLE, .hi = limit});

        CHECK_EQ(src.max_len, (size_t)limit);
        CHECK(strcmp(next(&src, NULL), cuts[limit - 1]) == 0);
    }
}

TEST(parent_is_cut_as_a_variable_is)
{
    struct slam_value_source src =
        prepared((struct slam_value_source){.kind = SLAM_VALUE_PARENT, .hi = 3});

    set_variable("cn=a,ou=b,dc=c", 14);
    CHECK_EQ(src.max_len, 3);
    CHECK(strcmp(next(&src, NULL), "ou=") == 0);
}

TEST(parent_begins_after_the_first_comma_that_is_not_escaped)
{
    static const char *const cases[][2] = {
        {"uid=a,ou=b,dc=c", "ou=b,dc=c"},
        {"cn=a\\,b,ou=c", "ou=c"},
        {"cn=a\\\\,ou=c", "ou=c"},
        {"cn=a\\2c,ou=c", "ou=c"},
        {"cn=a+sn=b,  ou=c", "ou=c"},
        {"dc=com", ""},
        {"cn=a\\", ""},
        {"cn=a,", ""},
        {"", ""},
    };
    struct slam_value_source src =
        prepared((struct slam_value_source){.kind = SLAM_VALUE_PARENT});

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set_variable(cases[i][0], strlen(cases[i][0]));
        CHECK(strcmp(next(&src, NULL), cases[i][1]) == 0);
    }
}

TEST(message_id_is_the_content_of_a_positive_integer)
{
    static const struct {
        int32_t id;
        size_t len;
        uint8_t octets[4];
    } cases[] = {{1, 1, {1}},
                 {127, 1, {127}},
                 {128, 2, {0, 128}},
                 {32768, 3, {0, 128, 0}},
                 {INT32_MAX, 4, {127, 255, 255, 255}}};
    struct slam_value_source src =
        prepared((struct slam_value_source){.kind = SLAM_VALUE_MESSAGE_ID});
    uint8_t out[4];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        draw.message_id_of_previous = cases[i].id;
        CHECK_EQ(slam_value_put(&src, NULL, &draw, out) - out, cases[i].len);
        CHECK(memcmp(out, cases[i].octets, cases[i].len) == 0);
    }
}

TEST(list_draws_by_weight_and_never_what_has_none)
{
    static const uint8_t list[] = "\x01\0\0\0\x02\0\0\0ab"
                                  "\0\0\0\0\x01\0\0\0x"
                                  "\x03\0\0\0\0\0\0\0";
    struct slam_value_source src = prepared((struct slam_value_source){
        .kind = SLAM_VALUE_LIST, .data = list, .data_len = sizeof(list) - 1});
    int ab = 0;

    CHECK(err[0] == '\0');
    CHECK_EQ(src.max_len, 2);
    slam_rng_seed(&rng, 6, 0);
    for (int i = 0; i < 4000; i++) {
        const char *text = next(&src, NULL);

        CHECK(strcmp(text, "ab") == 0 || *text == '\0');
        ab += *text == 'a';
    }
    CHECK(abs(ab - 1000) < 6 * 28); /* sqrt(4000 * 1/4 * 3/4) = 27.4 */
    slam_value_source_release(&src);
}

TEST(widest_range_that_is_allowed_works)
{
    struct slam_value_source src =
        number_source(SLAM_VALUE_SEQUENCE, INT64_MIN, INT64_MAX, 3, 0);
    struct slam_partition_cursor state = {0};

    use_partition(UINT32_MAX - 1, 1, 1, UINT32_MAX);
    CHECK(err[0] == '\0');
    /* INT64_MIN + 3 * (2^32 - 2) */
    CHECK(strcmp(next(&src, &state), "-9223372023969873926") == 0);
}
