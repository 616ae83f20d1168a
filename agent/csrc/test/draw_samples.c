/* SPDX-License-Identifier: Apache-2.0 */
/* Draws from the engine's own code for the tests in Python (tests/support/samples.py):
 * the commands come on standard input, words apart by spaces; bytes are hex, "-" is
 * none.
 *
 *   op PROGRAM COUNT, then COUNT times KIND LO HI STEP WIDTH A B DATA
 *   check PROGRAM COUNT …                   the same; "ok" after one request was made
 * of it within the bounds that it has, or why not variable NUMBER TEXT seed N
 *   text|encode FIRST STEP COUNT TOTAL N    N draws of a partition: one line of hex
 * each profile COUNT, then COUNT times DURATION A B pace ARRIVALS LIMIT FIRST
 * STEP COUNT TOTAL N UNTIL   times of at most N arrivals before UNTIL; then "end"
 *   expect T                                N(t) of the profile
 */
#include "core/slam_err.h"
#include "rate_profile.h"
#include "template/template.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX (4u << 20)
#define SEGMENTS_MAX 64u
#define VARIABLES 64u
#define SOURCES 256

static struct slam_value_source sources[SOURCES];
static struct slam_partition_cursor states[SOURCES];
static struct slam_variable variables[VARIABLES];
static struct slam_rate_segment segments[SEGMENTS_MAX];
static size_t segment_count;
static struct slam_rng rng;
static struct slam_feeds feeds;
static struct slam_template *op;
static char err[SLAM_ERR_LEN];

static _Noreturn void
fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static const char *
read_word(void)
{
    static char word[2 * BYTES_MAX + 1];

    if (scanf("%8388608s", word) != 1)
        fail("a word is missing");
    return word;
}

static uint64_t
read_number(void)
{
    const char *word = read_word();

    return *word == '-' ? (uint64_t)strtoll(word, NULL, 10) : strtoull(word, NULL, 10);
}

static double
read_real(void)
{
    return strtod(read_word(), NULL);
}

static uint8_t *
read_bytes(size_t *len)
{
    const char *word = read_word();
    uint8_t *bytes = malloc(strlen(word) / 2 + 1);

    *len = *word == '-' ? 0 : strlen(word) / 2;
    for (size_t i = 0; i < *len; i++) {
        char digits[3] = {word[2 * i], word[2 * i + 1], '\0'};

        bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return bytes;
}

static struct slam_partition
read_partition(void)
{
    struct slam_partition partition;

    partition.first = read_number();
    partition.step = read_number();
    partition.count = read_number();
    partition.total = read_number();
    return partition;
}

/* Returns whether the engine took it; else err says why not. */
static bool
read_op(void)
{
    size_t len;
    uint8_t *program = read_bytes(&len);
    size_t count = (size_t)read_number();
    struct slam_template_config config;

    for (size_t i = 0; i < count; i++) {
        struct slam_value_source *src = &sources[i];

        src->kind = (enum slam_value_kind)read_number();
        src->lo = (int64_t)read_number();
        src->hi = (int64_t)read_number();
        src->step = (int64_t)read_number();
        src->width = (uint32_t)read_number();
        src->a = read_real();
        src->b = read_real();
        src->data = read_bytes(&src->data_len);
    }
    slam_template_destroy(op);
    op = NULL;
    config = (struct slam_template_config){.program = program,
                                           .program_len = len,
                                           .sources = sources,
                                           .source_count = count};
    slam_template_create(&config, &feeds, &op, err);
    for (size_t i = 0; i < count; i++)
        free((void *)(uintptr_t)sources[i].data);
    free(program);
    return op != NULL;
}

/* One request into memory of exactly the sizes that the template has: a sanitizer sees
 * a byte too many. */
static void
check(void)
{
    const struct slam_partition partition = {
        .first = 1, .step = 1, .count = 1, .total = 3};
    const struct slam_draw draw = {
        .rng = &rng, .partition = &partition, .variables = variables};
    uint8_t *pdu;

    if (!read_op()) {
        puts(err);
        return;
    }
    pdu = malloc(slam_template_max_pdu(op));
    memset(states, 0, sizeof(states));
    if (slam_template_variable_count(op) <= VARIABLES)
        slam_template_encode(op, states, &draw, 1, pdu);
    free(pdu);
    puts("ok");
}

static void
print_hex(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        printf("%02x", bytes[i]);
    putchar('\n');
}

static void
draw(bool encode)
{
    static uint8_t out[SLAM_TEMPLATE_PDU_MAX];
    const struct slam_partition partition = read_partition();
    const struct slam_draw draw = {
        .rng = &rng, .partition = &partition, .variables = variables};
    uint64_t count = read_number();

    memset(states, 0, sizeof(states));
    while (count-- > 0) {
        const size_t len = encode ? slam_template_encode(op, states, &draw, 1, out)
                                  : slam_template_text(op, states, &draw, out);
        print_hex(out, len);
    }
}

static void
read_profile(void)
{
    segment_count = (size_t)read_number();
    if (segment_count > SEGMENTS_MAX)
        fail("too many segments");
    for (size_t i = 0; i < segment_count; i++) {
        segments[i].duration_ns = read_number();
        segments[i].a = read_real();
        segments[i].b = read_real();
    }
    if (slam_rate_profile_prepare(segments, segment_count, err) != 0)
        fail(err);
}

static void
pace(void)
{
    enum slam_arrivals arrivals = (enum slam_arrivals)read_number();
    uint64_t limit = read_number();
    const struct slam_partition partition = read_partition();
    uint64_t count = read_number(), until = read_number(), due;
    struct slam_pacer pacer;

    if (slam_pacer_init(&pacer, segments, segment_count, arrivals, &partition, limit,
                        &rng) != 0)
        fail("a partition has connections");
    while (count-- > 0 && (due = slam_pacer_next(&pacer, &rng)) < until)
        printf("%" PRIu64 "\n", due);
    puts("end");
}

int
main(void)
{
    char command[16];

    slam_rng_seed(&rng, 1, 0);
    while (scanf("%15s", command) == 1) {
        if (strcmp(command, "op") == 0) {
            if (!read_op())
                fail(err);
        } else if (strcmp(command, "check") == 0) {
            check();
        } else if (strcmp(command, "variable") == 0) {
            struct slam_variable *variable = &variables[read_number() % VARIABLES];
            size_t len;
            uint8_t *text = read_bytes(&len);

            if (len > SLAM_VARIABLE_MAX)
                fail("the variable is too long");
            memcpy(variable->text, text, len);
            variable->len = (uint32_t)len;
            free(text);
        } else if (strcmp(command, "seed") == 0) {
            slam_rng_seed(&rng, read_number(), 0);
        } else if (strcmp(command, "text") == 0) {
            draw(false);
        } else if (strcmp(command, "encode") == 0) {
            draw(true);
        } else if (strcmp(command, "profile") == 0) {
            read_profile();
        } else if (strcmp(command, "pace") == 0) {
            pace();
        } else if (strcmp(command, "expect") == 0) {
            printf("%.17g\n", arrivals_by(segments, segment_count, read_number()));
        } else {
            fail("unknown command");
        }
        fflush(stdout);
    }
    slam_template_destroy(op);
    slam_feeds_close(&feeds);
    return 0;
}
