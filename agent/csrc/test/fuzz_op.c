/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: any program with any sources is either refused, or encodes requests within
 * the sizes that it promised. The input: the number of sources, 16 bytes for each, the
 * program. */
#include "op.h"

#include <stdlib.h>
#include <string.h>

#define SOURCES_MAX 8u
#define SOURCE_BYTES 16u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
read_source(const uint8_t *at, struct slam_value_source *src)
{
    memset(src, 0, sizeof(*src));
    src->kind = (enum slam_value_kind)(at[0] % 4);
    src->step = at[1];
    src->width = (uint32_t)at[2] << (at[3] % 12);
    /* strings stay short enough to be fast, now and then not */
    memcpy(&src->lo, at + 4, at[3] & 0x80 ? 6 : 1);
    memcpy(&src->hi, at + 10, 6);
    if (at[3] & 0x40)
        src->lo = -src->lo;
    memset(src->charset, 'a', sizeof(src->charset));
    src->charset_len = at[1];
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slam_value_source sources[SOURCES_MAX];
    struct slam_value_state states[SOURCES_MAX];
    struct slam_op *op = NULL;
    struct slam_rng rng;
    char err[200];
    size_t source_count;

    if (size < 1)
        return 0;
    source_count = data[0] % (SOURCES_MAX + 1);
    if (size < 1 + source_count * SOURCE_BYTES)
        return 0;
    for (size_t i = 0; i < source_count; i++)
        read_source(data + 1 + i * SOURCE_BYTES, &sources[i]);
    data += 1 + source_count * SOURCE_BYTES;
    size -= 1 + source_count * SOURCE_BYTES;
    if (slam_op_create(data, size, sources, source_count, &op, err, sizeof(err)) != 0)
        return 0;

    size_t max = slam_op_max_pdu(op);
    uint8_t *pdu = malloc(max);
    char *scratch = malloc(slam_op_scratch_len(op) + 1);
    if (pdu == NULL || scratch == NULL)
        abort();
    slam_rng_seed(&rng, 1, 1);
    for (size_t i = 0; i < source_count; i++)
        slam_value_state_init(&sources[i], &states[i], 3, 7);
    for (int32_t id = 1; id <= 0x10000; id <<= 8) {
        size_t len = slam_op_encode(op, states, &rng, scratch, id, pdu + max);

        if (len > max || pdu[max - len] != 0x30)
            abort();
    }
    free(pdu);
    free(scratch);
    slam_op_destroy(op);
    return 0;
}
