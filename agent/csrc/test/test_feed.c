/* SPDX-License-Identifier: Apache-2.0 */
#include "core/slam_err.h"
#include "slam_test.h"
#include "template/feed.h"
#include "template/template.h"

#include <stdlib.h>

static const char path[] = "feed.txt";
static char err[SLAM_ERR_LEN];

static void
write_file(const char *bytes, size_t len)
{
    FILE *file = fopen(path, "w");

    fwrite(bytes, 1, len, file);
    fclose(file);
}

static bool
line_is(const struct slam_feed *feed, uint32_t i, const char *expected)
{
    size_t len;
    const uint8_t *line = slam_feed_line(feed, i, &len);

    return len == strlen(expected) && memcmp(line, expected, len) == 0;
}

TEST(lines_end_with_lf_cr_lf_or_the_file)
{
    struct slam_feeds feeds = {0};
    const struct slam_feed *feed = NULL;

    write_file("one\r\n\ntwo\rhalf\nlast\r", 20);
    CHECK_EQ(slam_feeds_open(&feeds, path, strlen(path), &feed, err), 0);
    CHECK_EQ(feed->count, 4);
    CHECK_EQ(feed->longest, 8);
    CHECK(line_is(feed, 0, "one"));
    CHECK(line_is(feed, 1, ""));
    CHECK(line_is(feed, 2, "two\rhalf"));
    CHECK(line_is(feed, 3, "last\r")); /* a CR alone ends no line */
    slam_feeds_close(&feeds);
}

TEST(byte_order_mark_is_no_part_of_the_first_line)
{
    struct slam_feeds feeds = {0};
    const struct slam_feed *feed = NULL;

    write_file("\xef\xbb\xbf"
               "a\nb\n",
               7);
    CHECK_EQ(slam_feeds_open(&feeds, path, strlen(path), &feed, err), 0);
    CHECK_EQ(feed->count, 2);
    CHECK(line_is(feed, 0, "a") && line_is(feed, 1, "b"));
    slam_feeds_close(&feeds);
}

TEST(path_is_opened_once)
{
    struct slam_feeds feeds = {0};
    const struct slam_feed *first = NULL, *second = NULL;

    write_file("a", 1);
    CHECK_EQ(slam_feeds_open(&feeds, path, strlen(path), &first, err), 0);
    CHECK_EQ(slam_feeds_open(&feeds, path, strlen(path), &second, err), 0);
    CHECK(first == second);
    slam_feeds_close(&feeds);
}

TEST(file_without_use_is_refused_with_the_reason)
{
    static char line[SLAM_FEED_LINE_MAX + 3] = "a\n";
    struct slam_feeds feeds = {0};
    const struct slam_feed *feed = NULL;

    memset(line + 2, 'x', SLAM_FEED_LINE_MAX + 1);
    write_file("", 0);
    CHECK_EQ(slam_feeds_open(&feeds, path, strlen(path), &feed, err), SLAM_EINVAL);
    CHECK(strstr(err, "is empty") != NULL);
    write_file("\xef\xbb\xbf", 3);
    CHECK_EQ(slam_feeds_open(&feeds, path, strlen(path), &feed, err), SLAM_EINVAL);
    CHECK(strstr(err, "is empty") != NULL);
    write_file(line, sizeof(line));
    CHECK_EQ(slam_feeds_open(&feeds, path, strlen(path), &feed, err), SLAM_EINVAL);
    CHECK(strstr(err, "line 2 of") != NULL && strstr(err, "65537 bytes") != NULL);
    CHECK_EQ(slam_feeds_open(&feeds, "/tmp", 4, &feed, err), SLAM_EINVAL);
    CHECK(strstr(err, "not a file") != NULL);
    CHECK_EQ(slam_feeds_open(&feeds, "/no/file", 8, &feed, err), SLAM_ESYS);
    CHECK(strstr(err, "cannot read '/no/file': No such file") != NULL);
    CHECK_EQ(slam_feeds_open(&feeds, "", 0, &feed, err), SLAM_EINVAL);
    CHECK_EQ(slam_feeds_open(&feeds, "a\0b", 3, &feed, err), SLAM_EINVAL);
    slam_feeds_close(&feeds);
}

TEST(lines_become_values_at_random_or_in_turn)
{
    static const uint8_t program[] = "\x02\x00\x00\x01\x01\x00\x00\x00 \x02\x01\x00";
    struct slam_value_source sources[] = {
        {.kind = SLAM_VALUE_FILE_SEQUENCE,
         .data = (const uint8_t *)path,
         .data_len = 8},
        {.kind = SLAM_VALUE_FILE_RANDOM, .data = (const uint8_t *)path, .data_len = 8}};
    struct slam_partition_cursor states[2] = {0};
    struct slam_rng rng;
    const struct slam_partition partition = {
        .first = 1, .step = 1, .count = 1, .total = 2};
    const struct slam_draw draw = {.rng = &rng, .partition = &partition};
    struct slam_feeds feeds = {0};
    struct slam_template *op = NULL;
    uint8_t out[11];
    const struct slam_template_config config = {.program = (const uint8_t *)program,
                                                .program_len = sizeof(program) - 1,
                                                .sources = sources,
                                                .source_count = 2};
    int random_c = 0;

    write_file("a\nbb\nccccc\n", 11);
    slam_rng_seed(&rng, 4, 0);
    CHECK_EQ(slam_template_create(&config, &feeds, &op, err), 0);
    CHECK_EQ(slam_template_max_text(op), 11);
    for (int i = 0; i < 3000; i++) {
        /* x = 1, 3, 5, …: lines 1, 0, 2 */
        static const char *const in_turn[] = {"bb ", "a ", "ccccc "};
        const char *expected = in_turn[i % 3];
        size_t len = slam_template_text(op, states, &draw, out);

        CHECK(memcmp(out, expected, strlen(expected)) == 0);
        random_c += out[len - 1] == 'c';
    }
    CHECK(abs(random_c - 1000) < 6 * 26); /* sqrt(3000 * 1/3 * 2/3) = 25.8 */
    slam_template_destroy(op);
    slam_feeds_close(&feeds);
}
