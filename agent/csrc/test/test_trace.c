/* SPDX-License-Identifier: Apache-2.0 */
#include "core/slam_err.h"
#include "load/trace.h"
#include "slam_test.h"

#include <stdlib.h>

#define HEADER_LEN 32u

static const char path[] = "trace";
static uint8_t file[4096];
static size_t file_len;
static char err[SLAM_ERR_LEN];

static void
begin(uint64_t records, uint64_t connections)
{
    const uint64_t header[4] = {0, records, connections, 0};

    memcpy(file, header, sizeof(header));
    memcpy(file, "SLT1", 4);
    file_len = sizeof(header);
}

/* Adds a record with a body of so many bytes, all 0x30; its offset. */
static uint64_t
add(uint64_t due_ns, uint64_t next, uint32_t connection, uint32_t operation,
    uint32_t length)
{
    const struct slam_trace_record record = {.due_ns = due_ns,
                                             .next = next,
                                             .connection = connection,
                                             .operation = operation,
                                             .length = length};
    uint64_t offset = file_len;

    memcpy(file + file_len, &record, sizeof(record));
    memset(file + file_len + sizeof(record), 0, (length + 7u) & ~7u);
    memset(file + file_len + sizeof(record), 0x30, length);
    file_len += sizeof(record) + ((length + 7u) & ~7u);
    return offset;
}

static int
open_file(uint32_t connections, uint32_t operations, struct slam_trace **trace)
{
    FILE *stream = fopen(path, "wb");
    bool written = stream && fwrite(file, 1, file_len, stream) == file_len;

    if (stream)
        fclose(stream);
    err[0] = '\0';
    return written ? slam_trace_open(path, connections, operations, trace, err)
                   : SLAM_ESYS;
}

/* Two connections, three requests: 0, 1, 0. */
static void
make_three(void)
{
    begin(3, 2);
    add(10, HEADER_LEN + 2 * 48, 0, 0, 2);
    add(20, 0, 1, 1, 8);
    add(30, 0, 0, 0, 3);
}

TEST(records_are_found_in_the_order_of_the_file_and_of_a_connection)
{
    struct slam_trace *trace = NULL;
    uint64_t at;

    make_three();
    CHECK_EQ(open_file(3, 2, &trace), SLAM_OK);
    at = slam_trace_first(trace);
    CHECK_EQ(slam_trace_at(trace, at)->due_ns, 10);
    at = slam_trace_following(trace, at);
    CHECK_EQ(slam_trace_at(trace, at)->due_ns, 20);
    at = slam_trace_following(trace, at);
    CHECK_EQ(slam_trace_at(trace, at)->due_ns, 30);
    CHECK_EQ(slam_trace_following(trace, at), 0);
    at = slam_trace_first_of(trace, 0);
    CHECK_EQ(slam_trace_at(trace, slam_trace_at(trace, at)->next)->due_ns, 30);
    CHECK_EQ(slam_trace_first_of(trace, 2), 0); /* one without any request */
    CHECK_EQ(slam_trace_max_pdu(trace), 8 + 11);
    slam_trace_close(trace);
}

TEST(a_trace_without_records_is_one)
{
    struct slam_trace *trace = NULL;

    begin(0, 0);
    CHECK_EQ(open_file(1, 1, &trace), SLAM_OK);
    CHECK_EQ(slam_trace_first(trace), 0);
    CHECK(slam_trace_at(trace, 0) == NULL);
    slam_trace_close(trace);
}

TEST(a_request_has_its_message_id_and_its_lengths)
{
    /* id, length of the body, bytes before it */
    const struct {
        int32_t id;
        uint32_t body;
        const char *before;
        size_t before_len;
    } cases[] = {
        {1, 2, "\x30\x05\x02\x01\x01", 5},
        {127, 2, "\x30\x05\x02\x01\x7f", 5},
        {128, 2, "\x30\x06\x02\x02\x00\x80", 6},
        {256, 3, "\x30\x07\x02\x02\x01\x00", 6},
        {2147483647, 2, "\x30\x08\x02\x04\x7f\xff\xff\xff", 8},
        {1, 125, "\x30\x81\x80\x02\x01\x01", 6},
        {1, 253, "\x30\x82\x01\x00\x02\x01\x01", 7},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct slam_trace *trace = NULL;
        uint8_t pdu[512];
        size_t len;

        begin(1, 1);
        add(0, 0, 0, 0, cases[i].body);
        CHECK_EQ(open_file(1, 1, &trace), SLAM_OK);
        len = slam_trace_encode(slam_trace_at(trace, slam_trace_first(trace)),
                                cases[i].id, pdu);
        CHECK_EQ(len, cases[i].before_len + cases[i].body);
        CHECK(len <= slam_trace_max_pdu(trace));
        CHECK(memcmp(pdu, cases[i].before, cases[i].before_len) == 0);
        slam_trace_close(trace);
    }
}

TEST(every_cut_of_a_trace_is_refused)
{
    struct slam_trace *trace = NULL;

    make_three();
    for (size_t len = file_len; len-- > 0;) {
        file_len = len;
        CHECK(open_file(2, 2, &trace) != SLAM_OK);
        CHECK(err[0] != '\0');
    }
}

TEST(a_record_that_is_out_of_range_or_order_is_refused)
{
    struct slam_trace *trace = NULL;

    make_three();
    CHECK_EQ(open_file(1, 2, &trace), SLAM_EINVAL); /* fewer connections */
    CHECK_EQ(open_file(2, 1, &trace), SLAM_EINVAL); /* fewer operations */
    begin(1, 1);
    add(0, 0, 1, 0, 2);
    CHECK_EQ(open_file(2, 1, &trace), SLAM_EINVAL); /* beyond its own connections */
    begin(1, 1);
    add(0, HEADER_LEN, 0, 0, 2);
    CHECK_EQ(open_file(1, 1, &trace), SLAM_EINVAL); /* it names itself */
    begin(2, 1);
    add(0, 0, 0, 0, 2);
    add(0, 0, 0, 0, 2);
    CHECK_EQ(open_file(1, 1, &trace), SLAM_EINVAL); /* it names nothing */
    begin(2, 1);
    add(5, HEADER_LEN + 48, 0, 0, 2);
    add(4, 0, 0, 0, 2);
    CHECK_EQ(open_file(1, 1, &trace), SLAM_EINVAL); /* back in time */
    begin(1, 1);
    add(0, 0, 0, 0, 2);
    add(0, 0, 0, 0, 2);
    CHECK_EQ(open_file(1, 1, &trace), SLAM_EINVAL); /* more than announced */
}
