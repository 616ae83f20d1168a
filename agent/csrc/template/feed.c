/* SPDX-License-Identifier: Apache-2.0 */
#include "template/feed.h"

#include "core/file.h"
#include "core/slam_err.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct open_feed {
    struct slam_feed feed; /* first: users hold its address */
    char *path;
    void *mapping;
    size_t len;
    struct open_feed *next;
};

static void
open_feed_destroy(struct open_feed *file)
{
    if (file->mapping)
        munmap(file->mapping, file->len);
    free(file->feed.starts);
    free(file->path);
    free(file);
}

void
slam_feeds_close(struct slam_feeds *feeds)
{
    while (feeds->first) {
        struct open_feed *file = feeds->first;

        feeds->first = file->next;
        open_feed_destroy(file);
    }
}

static size_t
count_lines(const uint8_t *at, const uint8_t *end)
{
    size_t count = 0;

    while (at < end) {
        const uint8_t *lf = memchr(at, '\n', (size_t)(end - at));

        at = lf ? lf + 1 : end;
        count++;
    }
    return count;
}

int
slam_feed_index(struct slam_feed *feed, const uint8_t *bytes, size_t len,
                const char *name, char *err)
{
    static const uint8_t byte_order_mark[] = {0xef, 0xbb, 0xbf};
    const uint8_t *at = bytes, *end = bytes + len;
    size_t count;

    *feed = (struct slam_feed){.bytes = bytes};
    if (len >= UINT32_MAX)
        return slam_fail(err, SLAM_EINVAL,
                         "'%s' is too long: a file of values has at most 4 GiB", name);
    if (len >= sizeof(byte_order_mark) &&
        memcmp(at, byte_order_mark, sizeof(byte_order_mark)) == 0)
        at += sizeof(byte_order_mark);
    count = count_lines(at, end);
    if (count == 0)
        return slam_fail(err, SLAM_EINVAL,
                         "'%s' is empty: a file of values has at least one line", name);
    feed->starts = malloc((count + 1) * sizeof(*feed->starts));
    if (!feed->starts)
        return slam_fail(err, SLAM_ENOMEM, "no memory for the %zu lines of '%s'", count,
                         name);
    while (at < end) {
        const uint8_t *lf = memchr(at, '\n', (size_t)(end - at));
        size_t line_len;

        feed->starts[feed->count] = (uint32_t)(at - bytes);
        at = lf ? lf + 1 : end;
        feed->starts[feed->count + 1] = (uint32_t)(at - bytes);
        slam_feed_line(feed, feed->count++, &line_len);
        if (line_len > SLAM_FEED_LINE_MAX) {
            snprintf(err, SLAM_ERR_LEN,
                     "line %" PRIu32 " of '%s' has %zu bytes: a value has at most %u",
                     feed->count, name, line_len, SLAM_FEED_LINE_MAX);
            free(feed->starts);
            feed->starts = NULL;
            return SLAM_EINVAL;
        }
        if (line_len > feed->longest)
            feed->longest = (uint32_t)line_len;
    }
    return SLAM_OK;
}

int
slam_feeds_open(struct slam_feeds *feeds, const char *path, size_t path_len,
                const struct slam_feed **feed, char *err)
{
    struct open_feed *file;
    int rc = SLAM_ENOMEM;

    for (file = feeds->first; file; file = file->next) {
        if (strlen(file->path) == path_len && memcmp(file->path, path, path_len) == 0) {
            *feed = &file->feed;
            return SLAM_OK;
        }
    }
    if (path_len == 0 || memchr(path, '\0', path_len))
        return slam_fail(err, SLAM_EINVAL, "a file of values needs a path");
    file = calloc(1, sizeof(*file));
    if (file)
        file->path = strndup(path, path_len);
    if (!file || !file->path) {
        snprintf(err, SLAM_ERR_LEN, "no memory for a file of values");
        free(file);
        return SLAM_ENOMEM;
    }
    rc = slam_file_map(file->path, &file->mapping, &file->len, err);
    if (rc == SLAM_OK)
        rc = slam_feed_index(&file->feed, file->mapping, file->len, file->path, err);
    if (rc != SLAM_OK) {
        open_feed_destroy(file);
        return rc;
    }
    file->next = feeds->first;
    feeds->first = file;
    *feed = &file->feed;
    return SLAM_OK;
}
