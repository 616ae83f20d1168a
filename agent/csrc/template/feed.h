/* SPDX-License-Identifier: Apache-2.0 */
/* Files whose lines are values, mapped and indexed once per engine, with four bytes for
 * each line. A line ends with LF or CR LF, the last one perhaps with neither; an empty
 * line is an empty value; a byte order mark is skipped. The file must not be truncated
 * meanwhile: agents draw from their own copies. */
#ifndef SLAM_FEED_H
#define SLAM_FEED_H

#include <stddef.h>
#include <stdint.h>

#define SLAM_FEED_LINE_MAX 65536u

struct slam_feed {
    const uint8_t *bytes;
    uint32_t *starts; /* [count + 1]; line i is in [starts[i], starts[i + 1]) */
    uint32_t count;   /* > 0 */
    uint32_t longest; /* bytes of the longest line */
};

/* Open files: none at first. Control thread only; all workers read the feeds. */
struct slam_feeds {
    struct open_feed *first;
};

/* Ends the life of every feed that was opened. */
void slam_feeds_close(struct slam_feeds *feeds);

/* The feed of a path (not terminated), opened at its first use. Fails where the file
 * cannot be read, is empty or longer than 4 GiB, or has a line of more than
 * SLAM_FEED_LINE_MAX bytes. */
int slam_feeds_open(struct slam_feeds *feeds, const char *path, size_t path_len,
                    const struct slam_feed **feed, char *err);

/* Indexes len bytes, which outlive the feed; name is for err. The caller frees
 * feed->starts. */
int slam_feed_index(struct slam_feed *feed, const uint8_t *bytes, size_t len,
                    const char *name, char *err);

/* Line i < count, without its end. */
static inline const uint8_t *
slam_feed_line(const struct slam_feed *feed, uint64_t i, size_t *len)
{
    const uint8_t *line = feed->bytes + feed->starts[i];
    const uint8_t *end = feed->bytes + feed->starts[i + 1];

    if (end > line && end[-1] == '\n') {
        end--;
        if (end > line && end[-1] == '\r')
            end--;
    }
    *len = (size_t)(end - line);
    return line;
}

#endif
