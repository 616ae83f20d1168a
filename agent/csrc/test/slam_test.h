/* SPDX-License-Identifier: Apache-2.0 */
/* A test program is a file of TEST(name) { … }, which run in their order; main() is
 * here. A failed check prints where and with which values, ends its test, and makes the
 * program fail. Files that a test writes stay in the folder of the build. */
#ifndef SLAM_TEST_H
#define SLAM_TEST_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct slam_test {
    const char *name;
    void (*run)(void);
    struct slam_test *next;
};

static struct slam_test *slam_tests;
static struct slam_test **slam_last_test = &slam_tests;
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

/* Defines a test; main() runs it. */
#define TEST(name)                                                                     \
    static void name(void);                                                            \
    __attribute__((constructor)) static void slam_add_##name(void)                     \
    {                                                                                  \
        static struct slam_test test = {#name, name, NULL};                            \
                                                                                       \
        *slam_last_test = &test;                                                       \
        slam_last_test = &test.next;                                                   \
    }                                                                                  \
    static void name(void)

int
main(void)
{
    for (const struct slam_test *test = slam_tests; test; test = test->next) {
        int before = slam_test_failures;

        test->run();
        printf("%s %s\n", slam_test_failures == before ? "ok  " : "FAIL", test->name);
    }
    return slam_test_failures > 0;
}

#endif
