/* SPDX-License-Identifier: Apache-2.0 */
#include "ldap/pdu.h"
#include "slam_test.h"

#include <stdlib.h>

#define MAX_PDU (1u << 20)

/* Three messages: an entry of 133 bytes of content, a done, a notice of disconnection's
 * beginning (messageID 0, extendedResponse, unavailable). */
static uint8_t stream[256];
static size_t stream_len;

static void
put(const char *bytes, size_t len)
{
    memcpy(stream + stream_len, bytes, len);
    stream_len += len;
}

static void
make_stream(void)
{
    stream_len = 0;
    put("\x30\x81\x85\x02\x01\x05\x64\x7f", 8);
    memset(stream + stream_len, 'x', 128);
    stream_len += 128; /* one more than the operation: a control, say */
    put("\x30\x0d\x02\x02\x00\x80\x65\x07\x0a\x01\x20\x04\x00\x04\x00", 15);
    put("\x30\x0c\x02\x01\x00\x78\x07\x0a\x01\x34\x04\x00\x04\x00", 14);
}

static void
check_messages(size_t chunk, size_t *seen)
{
    static const struct slam_pdu expected[] = {
        {.message_id = 5, .tag = SLAM_PDU_SEARCH_ENTRY, .result_code = -1, .len = 136},
        {.message_id = 128, .tag = SLAM_PDU_SEARCH_DONE, .result_code = 32, .len = 15},
        {.message_id = 0,
         .tag = SLAM_PDU_EXTENDED_RESPONSE,
         .result_code = 52,
         .len = 14},
    };
    struct slam_pdu_parser parser;
    struct slam_pdu pdu;

    *seen = 0;
    slam_pdu_parser_init(&parser, MAX_PDU);
    for (size_t at = 0; at < stream_len; at += chunk) {
        size_t len = stream_len - at < chunk ? stream_len - at : chunk;
        /* a copy of its own, so that a sanitizer sees a read beyond the chunk */
        uint8_t *copy = malloc(len);
        const uint8_t *data = copy;
        int rc;

        memcpy(copy, stream + at, len);
        while ((rc = slam_pdu_next(&parser, &data, &len, &pdu)) == 1) {
            CHECK(*seen < 3);
            CHECK_EQ(pdu.message_id, expected[*seen].message_id);
            CHECK_EQ(pdu.tag, expected[*seen].tag);
            CHECK_EQ(pdu.result_code, expected[*seen].result_code);
            CHECK_EQ(pdu.len, expected[*seen].len);
            ++*seen;
        }
        CHECK_EQ(rc, 0);
        CHECK_EQ(len, 0);
        free(copy);
    }
}

TEST(messages_are_found_however_the_bytes_are_cut)
{
    make_stream();
    for (size_t chunk = 1; chunk <= stream_len; chunk++) {
        size_t seen;

        check_messages(chunk, &seen);
        CHECK_EQ(seen, 3);
    }
}

TEST(bytes_that_no_directory_may_send_are_refused)
{
    static const struct {
        const char *what;
        const char *bytes;
        size_t len;
    } cases[] = {
        {"not a SEQUENCE", "\x31\x05", 2},
        {"text", "HTTP/1.1 400 Bad Request\r\n", 26},
        {"indefinite length", "\x30\x80\x02\x01\x01", 5},
        {"reserved length", "\x30\xff", 2},
        {"length of five bytes", "\x30\x85\x00\x00\x00\x00\x05", 7},
        {"longer than the limit", "\x30\x83\x10\x00\x01", 5},
        {"4 GiB", "\x30\x84\xff\xff\xff\xff\x02\x01\x01", 9},
        {"empty", "\x30\x00", 2},
        {"no operation", "\x30\x03\x02\x01\x01", 5},
        {"messageID of no bytes", "\x30\x05\x02\x00\x65\x01\x00", 7},
        {"messageID of five bytes", "\x30\x09\x02\x05\x00\x00\x00\x00\x01\x65\x00", 11},
        {"negative messageID", "\x30\x05\x02\x01\xff\x65\x00", 7},
        {"messageID beyond the message", "\x30\x03\x02\x04\x01\x01\x01\x01", 8},
        {"no messageID", "\x30\x05\x04\x01\x01\x65\x00", 7},
        {"operation beyond the message", "\x30\x05\x02\x01\x01\x65\x07\x0a\x01\x00",
         10},
        {"a request", "\x30\x05\x02\x01\x01\x42\x00", 7},
        {"result code beyond the operation",
         "\x30\x0c\x02\x01\x01\x65\x02\x0a\x01\x00\x04"
         "\x00\x04\x00",
         14},
        {"result code that is no ENUMERATED",
         "\x30\x0c\x02\x01\x01\x65\x07\x02\x01\x00"
         "\x04\x00\x04\x00",
         14},
        {"no result code", "\x30\x05\x02\x01\x01\x65\x00", 7},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t chunk = 1; chunk <= cases[i].len; chunk++) {
            struct slam_pdu_parser parser;
            struct slam_pdu pdu;
            int rc = 0;

            slam_pdu_parser_init(&parser, MAX_PDU);
            for (size_t at = 0; at < cases[i].len && rc == 0; at += chunk) {
                size_t len = cases[i].len - at < chunk ? cases[i].len - at : chunk;
                const uint8_t *data = (const uint8_t *)cases[i].bytes + at;

                rc = slam_pdu_next(&parser, &data, &len, &pdu);
            }
            if (rc >= 0)
                fprintf(stderr, "%s, by %zu bytes: taken\n", cases[i].what, chunk);
            CHECK(rc < 0);
        }
    }
}

TEST(truncated_message_waits_for_its_rest)
{
    make_stream();
    for (size_t cut = 0; cut < 136; cut++) {
        struct slam_pdu_parser parser;
        struct slam_pdu pdu;
        const uint8_t *data = stream;
        size_t len = cut;

        slam_pdu_parser_init(&parser, MAX_PDU);
        CHECK_EQ(slam_pdu_next(&parser, &data, &len, &pdu), 0);
        CHECK_EQ(len, 0);
    }
}

TEST(lengths_in_more_bytes_than_needed_are_taken)
{
    /* X.690 BER allows it and some servers (Active Directory) do it. */
    static const uint8_t bytes[] = {0x30, 0x84, 0x00, 0x00, 0x00, 0x10, 0x02, 0x01,
                                    0x09, 0x65, 0x84, 0x00, 0x00, 0x00, 0x07, 0x0a,
                                    0x01, 0x00, 0x04, 0x00, 0x04, 0x00};
    struct slam_pdu_parser parser;
    struct slam_pdu pdu;
    const uint8_t *data = bytes;
    size_t len = sizeof(bytes);

    slam_pdu_parser_init(&parser, MAX_PDU);
    CHECK_EQ(slam_pdu_next(&parser, &data, &len, &pdu), 1);
    CHECK_EQ(pdu.message_id, 9);
    CHECK_EQ(pdu.result_code, 0);
    CHECK_EQ(pdu.len, sizeof(bytes));
}

TEST(message_of_exactly_the_limit_is_taken)
{
    struct slam_pdu_parser parser;
    struct slam_pdu pdu;
    const uint8_t *data = stream;
    size_t len;

    make_stream();
    len = stream_len;
    slam_pdu_parser_init(&parser, 136);
    CHECK_EQ(slam_pdu_next(&parser, &data, &len, &pdu), 1);
    data = stream;
    len = stream_len;
    slam_pdu_parser_init(&parser, 135);
    CHECK(slam_pdu_next(&parser, &data, &len, &pdu) < 0);
}
