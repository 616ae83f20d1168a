/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: the lines of any file, with their ends put back, are the file. */
#include "core/slam_err.h"
#include "template/feed.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slam_feed feed;
    char err[SLAM_ERR_LEN];
    size_t longest = 0, at;

    if (slam_feed_index(&feed, data, size, "file", err) != 0)
        return 0;
    if (feed.count == 0)
        abort();
    at = feed.starts[0]; /* after a byte order mark */
    for (uint32_t i = 0; i < feed.count; i++) {
        size_t len;
        const uint8_t *line = slam_feed_line(&feed, i, &len);

        if (line != data + at || memchr(line, '\n', len))
            abort();
        at += len;
        if (at < size && data[at] == '\r' && at + 1 < size && data[at + 1] == '\n')
            at++;
        if (at < size && data[at] == '\n')
            at++;
        if (len > longest)
            longest = len;
    }
    if (at != size || longest != feed.longest)
        abort();
    free(feed.starts);
    return 0;
}
