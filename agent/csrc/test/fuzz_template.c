/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: any program with any sources is either refused, or encodes requests within
 * the sizes that it promised. The input: the number of sources, 17 bytes for each, the
 * program; the sources' data is the program's bytes. */
#include "core/slam_err.h"
#include "template/template.h"

#include <stdlib.h>
#include <string.h>

#define SOURCES_MAX 8u
#define SOURCE_BYTES 17u
#define VARIABLES 4u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
read_source(const uint8_t *at, const uint8_t *data, size_t data_len,
            struct slam_value_source *src)
{
    *src = (struct slam_value_source){.kind = (enum slam_value_kind)(at[0] % 17),
                                      .step = at[1] & 0x80 ? at[1] & 0x7f : at[1] % 5,
                                      .width = (uint32_t)at[2] << (at[3] % 12),
                                      .a = at[2] / 16.0,
                                      .b = at[1] / 200.0,
                                      .data = data,
                                      .data_len = data_len};
    /* strings stay short enough to be fast, now and then not */
    memcpy(&src->lo, at + 4, at[3] & 0x80 ? 6 : 1);
    memcpy(&src->hi, at + 10, at[3] & 0x20 ? 6 : 1);
    if (src->data_len > at[16])
        src->data_len = at[16];
    if (at[3] & 0x40)
        src->lo = -src->lo;
    if (at[0] & 0x80) /* more often what refers to little */
        src->lo &= 3;
}

/* The TLV that begins at `at` and must end at `end`: its length is what is there. */
static void
check_envelope(const uint8_t *at, const uint8_t *end)
{
    size_t len = at[1], header = 2;

    if (len & 0x80) {
        header += len & 0x7f;
        len = 0;
        for (size_t i = 2; i < header; i++)
            len = len << 8 | at[i];
    }
    if (at[0] != 0x30 || (size_t)(end - at) != header + len)
        abort();
}

static void
run(const struct slam_template *op)
{
    static struct slam_variable variables[VARIABLES];
    struct slam_partition_cursor states[SOURCES_MAX] = {0};
    struct slam_rng rng;
    const struct slam_partition partition = {
        .first = 3, .step = 5, .count = 2, .total = 11};
    const struct slam_draw draw = {.rng = &rng,
                                   .partition = &partition,
                                   .variables = variables,
                                   .message_id_of_previous = 77};
    size_t max = slam_template_max_pdu(op);
    uint8_t *pdu = malloc(max);

    if (pdu == NULL)
        abort();
    for (size_t i = 0; i < VARIABLES; i++)
        for (size_t j = 0; j < SLAM_VARIABLE_MAX; j++)
            variables[i].text[j] =
                (uint8_t) ",\\ a\0+#b\xc3\xa4"[(i + j * (i + 1)) % 10];
    variables[1].len = 12;
    variables[2].len = SLAM_VARIABLE_MAX;
    slam_rng_seed(&rng, 1, 1);
    for (int32_t id = 1; id <= 0x10000; id <<= 8) {
        size_t len = slam_template_encode(op, states, &draw, id, pdu);

        if (len > max)
            abort();
        check_envelope(pdu, pdu + len);
    }
    if (slam_template_max_text(op) != SIZE_MAX) {
        uint8_t *text = malloc(slam_template_max_text(op) + 1);

        if (slam_template_text(op, states, &draw, text) > slam_template_max_text(op))
            abort();
        free(text);
    }
    free(pdu);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slam_value_source sources[SOURCES_MAX];
    struct slam_template *op = NULL;
    char err[SLAM_ERR_LEN];
    struct slam_template_config config;
    const uint8_t *program;
    size_t source_count, program_len;

    if (size < 1)
        return 0;
    source_count = data[0] % (SOURCES_MAX + 1);
    if (size < 1 + source_count * SOURCE_BYTES)
        return 0;
    program = data + 1 + source_count * SOURCE_BYTES;
    program_len = size - 1 - source_count * SOURCE_BYTES;
    for (size_t i = 0; i < source_count; i++)
        read_source(data + 1 + i * SOURCE_BYTES, program, program_len, &sources[i]);
    config = (struct slam_template_config){.program = program,
                                           .program_len = program_len,
                                           .sources = sources,
                                           .source_count = source_count};
    if (slam_template_create(&config, NULL, &op, err) != 0)
        return 0;
    if (slam_template_variable_count(op) <= VARIABLES)
        run(op);
    slam_template_destroy(op);
    return 0;
}
