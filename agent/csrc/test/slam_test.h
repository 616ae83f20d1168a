/* SPDX-License-Identifier: Apache-2.0 */
/* A test program is functions of no arguments and a main() that runs them: a failed
 * check prints where and with which values, ends its test, and makes the program fail.
 */
#ifndef SLAM_TEST_H
#define SLAM_TEST_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int slam_test_failures;

#define CHECK(condition)                                                               \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);  \
            slam_test_failures++;                                                      \
            return;                                                                    \
        }                                                                              \
    } while (0)

#define CHECK_EQ(actual, expected)                                                     \
    do {                                                                               \
        int64_t actual_ = (int64_t)(actual);                                           \
        int64_t expected_ = (int64_t)(expected);                                       \
        if (actual_ != expected_) {                                                    \
            fprintf(stderr, "%s:%d: %s is %" PRId64 ", expected %" PRId64 "\n",        \
                    __FILE__, __LINE__, #actual, actual_, expected_);                  \
            slam_test_failures++;                                                      \
            return;                                                                    \
        }                                                                              \
    } while (0)

#define RUN(test)                                                                      \
    do {                                                                               \
        int before_ = slam_test_failures;                                              \
        test();                                                                        \
        printf("%s %s\n", slam_test_failures == before_ ? "ok  " : "FAIL", #test);     \
    } while (0)

#define SLAM_TEST_EXIT() (slam_test_failures == 0 ? 0 : 1)

#endif
