/* SPDX-License-Identifier: Apache-2.0 */
#include "core/slam_err.h"
#include "slam_test.h"
#include "template/values.h"

#include <math.h>

static char err[SLAM_ERR_LEN];

TEST(source_out_of_range_is_refused_with_the_reason)
{
    static const uint8_t cut[] = {1, 0, 0, 0, 9, 0, 0, 0, 'a'};
    static const uint8_t a[257];
    const struct {
        struct slam_value_source src;
        const char *reason;
    } cases[] = {
        {{.kind = SLAM_VALUE_UNIFORM, .lo = 2, .hi = 1, .step = 1},
         "range 2..1 is empty"},
        {{.kind = SLAM_VALUE_ZIPF, .lo = 2, .hi = 1, .step = 1, .a = 1}, "is empty"},
        {{.kind = SLAM_VALUE_SEQUENCE, .hi = 1}, "step"},
        {{.kind = SLAM_VALUE_SEQUENCE, .hi = 1, .step = -1}, "step"},
        {{.kind = SLAM_VALUE_UNIFORM, .lo = INT64_MIN, .hi = INT64_MAX, .step = 1},
         "members"},
        {{.kind = SLAM_VALUE_SEQUENCE, .lo = INT64_MAX, .hi = INT64_MIN, .step = 1},
         "members"},
        {{.kind = SLAM_VALUE_UNIFORM, .hi = 1, .step = 1, .width = SLAM_VALUE_MAX_LEN},
         "digits"},
        {{.kind = (enum slam_value_kind)16}, "unknown kind"},
        {{.kind = SLAM_VALUE_STRING, .lo = 5}, "charset"},
        {{.kind = SLAM_VALUE_STRING, .lo = 5, .data = a, .data_len = 257}, "charset"},
        {{.kind = SLAM_VALUE_STRING, .lo = SLAM_VALUE_MAX_LEN + 1}, "65537"},
        {{.kind = SLAM_VALUE_STRING, .data = a, .data_len = 1}, "got 0"},
        {{.kind = SLAM_VALUE_STRING, .lo = -1, .hi = 2}, "got -1"},
        {{.kind = SLAM_VALUE_ZIPF, .hi = 9, .step = 1}, "exponent"},
        {{.kind = SLAM_VALUE_ZIPF, .hi = 9, .step = 1, .a = NAN}, "exponent"},
        {{.kind = SLAM_VALUE_ZIPF, .hi = INT64_C(1) << 53, .step = 1, .a = 1}, "2^53"},
        {{.kind = SLAM_VALUE_GAUSS, .hi = INT64_C(1) << 53, .step = 1}, "2^53"},
        {{.kind = SLAM_VALUE_HOT, .hi = 9, .step = 1, .a = 1, .b = 1}, "share"},
        {{.kind = SLAM_VALUE_HOT, .hi = 9, .step = 1, .a = NAN, .b = 1}, "share"},
        {{.kind = SLAM_VALUE_HOT, .hi = 9, .step = 1, .a = .5, .b = 1.1}, "fraction"},
        {{.kind = SLAM_VALUE_HOT, .step = 1, .a = .5, .b = 1}, "one member"},
        {{.kind = SLAM_VALUE_FILE_RANDOM, .data = a, .data_len = 1}, "registry"},
        {{.kind = SLAM_VALUE_TIMESTAMP, .lo = 2, .hi = 1}, "2..1"},
        {{.kind = SLAM_VALUE_TIMESTAMP, .hi = INT64_MAX}, "years"},
        {{.kind = SLAM_VALUE_TIMESTAMP, .lo = INT64_MIN}, "years"},
        {{.kind = SLAM_VALUE_TIMESTAMP, .step = 3}, "unknown format 3"},
        {{.kind = SLAM_VALUE_UNIQUE}, "unique"},
        {{.kind = SLAM_VALUE_VARIABLE, .lo = 65536}, "variable"},
        {{.kind = SLAM_VALUE_PARENT, .lo = -1}, "variable"},
        {{.kind = SLAM_VALUE_LIST}, "needs an entry"},
        {{.kind = SLAM_VALUE_LIST, .data = a, .data_len = 8}, "needs an entry"},
        {{.kind = SLAM_VALUE_LIST, .data = cut, .data_len = 9}, "cut off"},
        {{.kind = SLAM_VALUE_LIST, .data = cut, .data_len = 8}, "cut off"},
        {{.kind = SLAM_VALUE_LIST, .data = cut, .data_len = 7}, "needs an entry"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct slam_value_source src = cases[i].src;

        CHECK_EQ(slam_value_source_prepare(&src, NULL, err), SLAM_EINVAL);
        CHECK(strstr(err, cases[i].reason) != NULL);
    }
}

TEST(longest_number_may_be_at_either_end_of_the_range)
{
    static const int64_t ranges[][2] = {{-1000, 5}, {-1, 12345}, {5, -1000}};

    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        struct slam_value_source src = {.kind = SLAM_VALUE_SEQUENCE,
                                        .lo = ranges[i][0],
                                        .hi = ranges[i][1],
                                        .step = 1};

        CHECK_EQ(slam_value_source_prepare(&src, NULL, err), SLAM_OK);
        CHECK_EQ(src.max_len, 5);
    }
}

TEST(longest_variable_fits_also_escaped)
{
    static struct slam_variable variable;
    const struct slam_draw draw = {.variables = &variable};
    struct slam_value_source src = {.kind = SLAM_VALUE_VARIABLE, .width = 1};
    static uint8_t out[3 * SLAM_VARIABLE_MAX];

    CHECK_EQ(slam_value_source_prepare(&src, NULL, err), SLAM_OK);
    memset(variable.text, 0, SLAM_VARIABLE_MAX);
    variable.len = SLAM_VARIABLE_MAX;
    CHECK_EQ(src.max_len, sizeof(out));
    CHECK_EQ(slam_value_put(&src, NULL, &draw, out) - out, sizeof(out));
}
