/* SPDX-License-Identifier: Apache-2.0 */
#include "core/histogram.h"

#include <string.h>

#define NS_PER_US 1000u
#define PACKED_BUCKET_BYTES 6u

/* HdrHistogram's counts index: values below 2048 us have a bucket each; above, each
 * power of two is divided into 1024 buckets. With b = floor(log2(v)) - 10,
 * index = 1024 * b + (v >> b); `| 1023` makes b 0 for small values, 0 among them. */
uint32_t
slam_histogram_index(uint64_t value_us)
{
    unsigned int log2 =
        63u - (unsigned int)__builtin_clzll(value_us | (SLAM_HISTOGRAM_HALF - 1));
    unsigned int bucket = log2 < 10 ? 0 : log2 - 10;

    return bucket * SLAM_HISTOGRAM_HALF + (uint32_t)(value_us >> bucket);
}

void
slam_histogram_record(struct slam_histogram *h, uint64_t value_ns)
{
    uint64_t value_us = value_ns / NS_PER_US;

    if (~value_ns > h->inverted_min_ns)
        h->inverted_min_ns = ~value_ns;
    if (value_ns > h->max_ns)
        h->max_ns = value_ns;
    if (value_us > SLAM_HISTOGRAM_MAX_US) {
        h->overflow++;
        return;
    }
    h->total++;
    h->sum_ns += value_ns;
    h->counts[slam_histogram_index(value_us)]++;
}

/* Sets the range [*first, *end) of the buckets that may hold values. */
static void
used_range(const struct slam_histogram *h, uint32_t *first, uint32_t *end)
{
    uint64_t min_us = ~h->inverted_min_ns / NS_PER_US;
    uint64_t max_us = h->max_ns / NS_PER_US;

    *first = 0;
    *end = 0;
    if (h->total > 0) {
        *first = slam_histogram_index(min_us);
        *end = max_us > SLAM_HISTOGRAM_MAX_US ? SLAM_HISTOGRAM_BUCKETS
                                              : slam_histogram_index(max_us) + 1;
    }
}

void
slam_histogram_reset(struct slam_histogram *h)
{
    uint32_t first, end;

    if (h->total == 0 && h->overflow == 0)
        return;
    used_range(h, &first, &end);
    memset(h->counts + first, 0, (end - first) * sizeof(h->counts[0]));
    h->total = h->overflow = h->inverted_min_ns = h->max_ns = h->sum_ns = 0;
}

void
slam_histogram_merge(struct slam_histogram *dst, const struct slam_histogram *src)
{
    uint32_t first, end;

    used_range(src, &first, &end);
    for (uint32_t i = first; i < end; i++)
        dst->counts[i] += src->counts[i];
    dst->total += src->total;
    dst->overflow += src->overflow;
    dst->sum_ns += src->sum_ns;
    if (src->inverted_min_ns > dst->inverted_min_ns)
        dst->inverted_min_ns = src->inverted_min_ns;
    if (src->max_ns > dst->max_ns)
        dst->max_ns = src->max_ns;
}

static uint32_t
used_buckets(const struct slam_histogram *h, uint32_t first, uint32_t end)
{
    uint32_t used = 0;

    for (uint32_t i = first; i < end; i++)
        used += h->counts[i] != 0;
    return used;
}

size_t
slam_histogram_packed_size(const struct slam_histogram *h)
{
    uint32_t first, end;

    used_range(h, &first, &end);
    return SLAM_PACKED_HEADER +
           (size_t)used_buckets(h, first, end) * PACKED_BUCKET_BYTES;
}

/* Writes the low `bytes` bytes of value, little-endian, whatever the host's order. */
static uint8_t *
put_little_endian(uint8_t *out, uint64_t value, unsigned int bytes)
{
    for (unsigned int i = 0; i < bytes; i++)
        *out++ = (uint8_t)(value >> (8 * i));
    return out;
}

size_t
slam_histogram_pack(const struct slam_histogram *h, uint8_t *buf)
{
    static const uint8_t magic[4] = {'S', 'L', 'H', '1'};
    uint8_t *out = buf;
    uint32_t first, end, used;

    used_range(h, &first, &end);
    used = used_buckets(h, first, end);
    memcpy(out, magic, sizeof(magic));
    out = put_little_endian(out + sizeof(magic), used, 4);
    out = put_little_endian(out, h->total, 8);
    out = put_little_endian(out, h->overflow, 8);
    out = put_little_endian(out, ~h->inverted_min_ns, 8);
    out = put_little_endian(out, h->max_ns, 8);
    out = put_little_endian(out, h->sum_ns, 8);

    uint8_t *count = out + (size_t)used * 2;
    for (uint32_t i = first; i < end; i++) {
        if (h->counts[i] != 0) {
            out = put_little_endian(out, i, 2);
            count = put_little_endian(count, h->counts[i], 4);
        }
    }
    return (size_t)(count - buf);
}
