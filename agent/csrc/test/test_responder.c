/* SPDX-License-Identifier: Apache-2.0 */
#include "core/clock.h"
#include "core/slam_err.h"
#include "ldap/pdu.h"
#include "responder/canned.h"
#include "responder/delays.h"
#include "responder/responder.h"
#include "slam_test.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

static const uint8_t search_request[] = {0x30, 0x05, 0x02, 0x01, 0x07, 0x63, 0x00};
static const uint8_t unbind_request[] = {0x30, 0x05, 0x02, 0x01, 0x08, 0x42, 0x00};
static struct slam_responder *r;
static char err[SLAM_ERR_LEN];

/* Walks TLVs of [at, end); returns whether their lengths fit, nested ones included. */
static bool
is_well_formed(const uint8_t *at, const uint8_t *end)
{
    while (at < end) {
        bool constructed = (at[0] & 0x20) != 0;
        size_t len = at[1];

        at += 2;
        if (len == 0x81)
            len = *at++;
        if (len > (size_t)(end - at) || (constructed && !is_well_formed(at, at + len)))
            return false;
        at += len;
    }
    return true;
}

TEST(answers_are_well_formed_for_every_message_id)
{
    static const int32_t ids[] = {1, 127, 128, 32767, 32768, 8388608, INT32_MAX};

    for (int kind = 0; kind < SLAM_CANNED_KINDS; kind++) {
        for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
            uint8_t answer[SLAM_CANNED_ANSWER_MAX];
            struct slam_pdu_parser parser;
            struct slam_pdu pdu;
            const uint8_t *at = answer;

            if (!slam_canned_has_answer((enum slam_canned_kind)kind))
                continue;
            size_t len =
                slam_canned_answer((enum slam_canned_kind)kind, ids[i], answer);
            CHECK(len <= sizeof(answer));
            CHECK(is_well_formed(answer, answer + len));
            slam_pdu_parser_init(&parser, sizeof(answer));
            if (kind == SLAM_CANNED_SEARCH) {
                CHECK_EQ(slam_pdu_next(&parser, &at, &len, &pdu), 1);
                CHECK_EQ(pdu.message_id, ids[i]);
                CHECK_EQ(pdu.tag, SLAM_PDU_SEARCH_ENTRY);
            }
            CHECK_EQ(slam_pdu_next(&parser, &at, &len, &pdu), 1);
            CHECK_EQ(pdu.message_id, ids[i]);
            CHECK_EQ(pdu.result_code, kind == SLAM_CANNED_COMPARE     ? 6
                                      : kind == SLAM_CANNED_START_TLS ? 2
                                                                      : 0);
            CHECK_EQ(len, 0);
        }
    }
}

/* RFC 4511 has none, but a peer may send one. */
TEST(answers_to_negative_message_ids_are_well_formed)
{
    static const int32_t ids[] = {-1, INT32_MIN};
    uint8_t answer[SLAM_CANNED_ANSWER_MAX];

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        size_t len = slam_canned_answer(SLAM_CANNED_SEARCH, ids[i], answer);

        CHECK(len <= sizeof(answer));
        CHECK(is_well_formed(answer, answer + len));
    }
}

TEST(requests_are_complete_incomplete_or_malformed)
{
    static const struct {
        const char *bytes;
        size_t len;
        int complete;
    } cases[] = {
        {"", 0, 0},
        {"\x30", 1, 0},
        {"\x30\x05\x02\x01\x07\x63", 6, 0},
        {"\x30\x05\x02\x01\x07\x63\x00", 7, 1},
        {"\x30\x05\x02\x01\x07\x63\x00\x30", 8, 1},
        {"\x30\x82\x00\x05\x02\x01\x07\x63\x00", 9, 1},
        {"\x30\x82\x00", 3, 0},
        {"\x31", 1, -1},
        {"\x30\x80", 2, -1},
        {"\x30\x85\x00\x00\x00\x00\x01", 7, -1},
        {"\x30\x84\xff\xff\xff\xff", 6, -1},
        {"\x30\x00", 2, -1},
        {"\x30\x03\x02\x01\x07", 5, -1},
        {"\x30\x05\x02\x03\x07\x63\x00", 7, -1},
        {"\x30\x05\x02\x01\x07\x65\x00", 7, -1},
        {"\x30\x04\x02\x01\x07\x63", 6, -1}, /* no length of the operation */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct slam_canned_request request;
        uint8_t *copy = malloc(cases[i].len + 1);

        memcpy(copy, cases[i].bytes, cases[i].len);
        CHECK_EQ(slam_canned_parse(copy, cases[i].len, &request), cases[i].complete);
        free(copy);
    }
}

TEST(start_tls_is_told_from_other_extended_requests)
{
    static const struct {
        const char *op;
        size_t len;
        enum slam_canned_kind kind;
    } cases[] = {
        {"\x77\x18\x80\x16"
         "1.3.6.1.4.1.1466.20037",
         26, SLAM_CANNED_START_TLS},
        {"\x77\x81\x18\x80\x16"
         "1.3.6.1.4.1.1466.20037",
         27, SLAM_CANNED_START_TLS},
        {"\x77\x18\x80\x16"
         "1.3.6.1.4.1.1466.20038",
         26, SLAM_CANNED_EXTENDED},
        {"\x77\x17\x80\x15"
         "1.3.6.1.4.1.1466.2003",
         25, SLAM_CANNED_EXTENDED},
        {"\x77\x00", 2, SLAM_CANNED_EXTENDED},
        {"\x77\x82", 2, SLAM_CANNED_EXTENDED},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct slam_canned_request request;
        size_t len = 5 + cases[i].len;
        uint8_t *message = malloc(len);

        memcpy(message, "\x30\x00\x02\x01\x07", 5);
        message[1] = (uint8_t)(len - 2);
        memcpy(message + 5, cases[i].op, cases[i].len);
        CHECK_EQ(slam_canned_parse(message, len, &request), 1);
        CHECK_EQ(request.kind, cases[i].kind);
        free(message);
    }
}

TEST(waiting_answers_leave_in_the_order_of_their_times)
{
    struct slam_delays delays;
    struct slam_rng rng;
    struct slam_waiting waiting = {0};
    uint64_t previous = 0;

    CHECK_EQ(slam_delays_init(&delays, NULL, 0, false, 0), SLAM_OK);
    CHECK_EQ(slam_delays_draw(&delays), 0);
    slam_rng_seed(&rng, 1, 1);
    for (int i = 0; i < 5000; i++) {
        waiting.due_ns = slam_rng_below(&rng, 1000);
        CHECK(slam_heap_push(&delays.waiting, &waiting));
    }
    CHECK(!slam_delays_pop_due(&delays, 0, &waiting) || waiting.due_ns == 0);
    for (size_t left = delays.waiting.len; left > 0; left--) {
        CHECK(slam_delays_pop_due(&delays, 1000, &waiting));
        CHECK(waiting.due_ns >= previous);
        previous = waiting.due_ns;
    }
    CHECK(!slam_delays_pop_due(&delays, UINT64_MAX, &waiting));
    slam_delays_destroy(&delays);
}

TEST(delays_are_drawn_by_their_weights)
{
    static const struct slam_delay mixture[] = {{0, 1}, {99, 2}, {1, 3}, {0, 4}};
    struct slam_delays delays;
    int drawn[5] = {0};

    CHECK_EQ(slam_delays_init(&delays, mixture, 4, false, 7), SLAM_OK);
    for (int i = 0; i < 100000; i++)
        drawn[slam_delays_draw(&delays)]++;
    CHECK_EQ(drawn[1] + drawn[4], 0);
    CHECK(abs(drawn[3] - 1000) < 190); /* six standard deviations of 31.5 */
    slam_delays_destroy(&delays);
    CHECK_EQ(slam_delays_init(&delays, mixture, 1, false, 7), SLAM_EINVAL);
}

TEST(requests_in_turn_wait_for_those_before_them)
{
    static const struct slam_delay delay = {1, 100};
    struct slam_delays delays;

    CHECK_EQ(slam_delays_init(&delays, &delay, 1, false, 7), SLAM_OK);
    CHECK_EQ(slam_delays_due(&delays, 1000), 1100);
    CHECK_EQ(slam_delays_due(&delays, 1000), 1100);
    slam_delays_destroy(&delays);
    CHECK_EQ(slam_delays_init(&delays, &delay, 1, true, 7), SLAM_OK);
    CHECK_EQ(slam_delays_due(&delays, 1000), 1100);
    CHECK_EQ(slam_delays_due(&delays, 1000), 1200);
    CHECK_EQ(slam_delays_due(&delays, 1150), 1300);
    CHECK_EQ(slam_delays_due(&delays, 5000), 5100);
    slam_delays_destroy(&delays);
}

static bool
start(const struct slam_responder_options *options)
{
    return slam_responder_create(options, &r, err) == SLAM_OK &&
           slam_responder_start(r, err) == SLAM_OK;
}

static int
connect_tcp(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons(slam_responder_port(r))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Reads until `expected` final responses have come; returns how many did. */
static int
read_answers(int fd, int expected)
{
    struct slam_pdu_parser parser;
    struct slam_pdu pdu;
    uint8_t bytes[65536];
    int answers = 0;
    ssize_t got;

    slam_pdu_parser_init(&parser, 1024);
    while (answers < expected && (got = read(fd, bytes, sizeof(bytes))) > 0) {
        const uint8_t *at = bytes;
        size_t len = (size_t)got;

        while (slam_pdu_next(&parser, &at, &len, &pdu) == 1)
            answers += pdu.result_code >= 0;
    }
    return answers;
}

static bool
is_readable_within(int fd, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, timeout_ms) == 1;
}

TEST(pipelined_requests_are_all_answered_counted_and_recorded)
{
    enum { REQUESTS = 20000 };
    struct slam_responder_options options = {.record_capacity = REQUESTS - 1};
    static uint8_t requests[REQUESTS * sizeof(search_request)];
    struct slam_responder_counts counts;
    size_t recorded, sent = 0;
    int answers = 0;

    CHECK(start(&options));
    int fd = connect_tcp();
    CHECK(fd >= 0);
    for (int i = 0; i < REQUESTS; i++) {
        memcpy(requests + (size_t)i * sizeof(search_request), search_request,
               sizeof(search_request));
    }
    uint64_t before_ns = slam_clock_mono_ns();
    while (answers < REQUESTS) {
        /* pieces that end within a request */
        size_t len = sizeof(requests) - sent < 9999 ? sizeof(requests) - sent : 9999;
        int complete = (int)((sent + len) / sizeof(search_request));

        CHECK_EQ(write(fd, requests + sent, len), len);
        sent += len;
        answers += read_answers(fd, complete - answers);
        CHECK_EQ(answers, complete);
    }
    uint64_t after_ns = slam_clock_mono_ns();

    CHECK_EQ(write(fd, unbind_request, sizeof(unbind_request)), sizeof(unbind_request));
    CHECK_EQ(read_answers(fd, 1), 0); /* closed */
    close(fd);
    slam_responder_stop(r);
    slam_responder_counts(r, &counts);
    CHECK_EQ(counts.connections, 1);
    CHECK_EQ(counts.requests[SLAM_CANNED_SEARCH], REQUESTS);
    CHECK_EQ(counts.requests[SLAM_CANNED_UNBIND], 1);
    CHECK_EQ(counts.protocol_errors, 0);
    CHECK_EQ(counts.samples_lost, 1);
    const struct slam_responder_sample *samples = slam_responder_record(r, &recorded);
    CHECK_EQ(recorded, REQUESTS - 1);
    for (size_t i = 0; i < recorded; i++) {
        CHECK(samples[i].received_ns >= before_ns - MS);
        CHECK(samples[i].received_ns + samples[i].service_ns <= after_ns);
        CHECK_EQ(samples[i].kind, SLAM_CANNED_SEARCH);
    }
    slam_responder_destroy(r);
}

TEST(delay_is_in_the_answers_time_and_in_the_record)
{
    static const struct slam_delay delay = {1, 20 * MS};
    struct slam_responder_options options = {
        .delays = &delay, .delay_count = 1, .record_capacity = 10};
    size_t recorded;

    CHECK(start(&options));
    int fd = connect_tcp();
    CHECK(fd >= 0);
    uint64_t sent_ns = slam_clock_mono_ns();
    CHECK(write(fd, search_request, sizeof(search_request)) > 0);
    CHECK_EQ(read_answers(fd, 1), 1);
    uint64_t took_ns = slam_clock_mono_ns() - sent_ns;
    const struct slam_responder_sample *samples = slam_responder_record(r, &recorded);
    CHECK_EQ(recorded, 1);
    CHECK(samples[0].service_ns >= 20 * MS);
    CHECK(samples[0].service_ns <= took_ns);
    close(fd);
    slam_responder_destroy(r);
}

TEST(paused_responder_is_silent_and_records_the_pause)
{
    struct slam_responder_options options = {.record_capacity = 10};
    size_t recorded;

    CHECK(start(&options));
    int fd = connect_tcp();
    CHECK(fd >= 0);
    CHECK(write(fd, search_request, sizeof(search_request)) > 0);
    CHECK_EQ(read_answers(fd, 1), 1);
    slam_responder_pause(r);
    /* a request may slip through until the thread has seen the pause */
    int slipped = 0;
    do {
        CHECK(write(fd, search_request, sizeof(search_request)) > 0);
        slipped++;
    } while (is_readable_within(fd, 50) && read_answers(fd, 1) == 1);
    slam_responder_resume(r);
    CHECK_EQ(read_answers(fd, 1), 1);
    const struct slam_responder_sample *samples = slam_responder_record(r, &recorded);
    CHECK_EQ(recorded, 1 + slipped);
    CHECK(samples[recorded - 1].service_ns >= 40 * MS);
    close(fd);
    slam_responder_destroy(r);
}

TEST(client_that_leaves_before_its_delayed_answer_is_forgotten)
{
    static const struct slam_delay delay = {1, 5 * MS};
    struct slam_responder_options options = {.delays = &delay, .delay_count = 1};

    CHECK(start(&options));
    int fd = connect_tcp();
    int other = connect_tcp();
    CHECK(fd >= 0 && other >= 0);
    CHECK(write(fd, search_request, sizeof(search_request)) > 0);
    CHECK(write(fd, unbind_request, sizeof(unbind_request)) > 0);
    CHECK_EQ(read_answers(fd, 1), 0);
    close(fd);
    for (int i = 0; i < 3; i++) {
        CHECK(write(other, search_request, sizeof(search_request)) > 0);
        CHECK_EQ(read_answers(other, 1), 1);
    }
    close(other);
    slam_responder_destroy(r);
}

/* A copy of the server's descriptor, as a forked process holds it until its exec. */
static int
copy_of_peer(int fd)
{
    struct sockaddr_in own, peer;
    socklen_t len = sizeof(own);

    if (getsockname(fd, (struct sockaddr *)&own, &len) != 0)
        return -1;
    for (int other = 0; other < 1024; other++) {
        len = sizeof(peer);
        if (getpeername(other, (struct sockaddr *)&peer, &len) == 0 &&
            peer.sin_family == AF_INET && peer.sin_port == own.sin_port)
            return dup(other);
    }
    return -1;
}

TEST(client_whose_descriptor_lives_on_in_a_copy_is_forgotten)
{
    struct slam_responder_options options = {0};

    CHECK(start(&options));
    int fd = connect_tcp();
    int other = connect_tcp();
    CHECK(write(fd, search_request, sizeof(search_request)) > 0);
    CHECK_EQ(read_answers(fd, 1), 1);
    int copy = copy_of_peer(fd);
    CHECK(copy >= 0);
    CHECK(write(fd, unbind_request, sizeof(unbind_request)) > 0);
    for (int i = 0; i < 50; i++) {
        CHECK(write(other, search_request, sizeof(search_request)) > 0);
        CHECK_EQ(read_answers(other, 1), 1);
        if (i == 25)
            close(fd);
    }
    close(copy);
    close(other);
    slam_responder_destroy(r);
}

TEST(garbage_closes_the_connection_and_is_counted)
{
    struct slam_responder_options options = {0};
    struct slam_responder_counts counts;

    CHECK(start(&options));
    int fd = connect_tcp();
    CHECK(fd >= 0);
    CHECK(write(fd, "GET / HTTP/1.0\r\n\r\n", 18) > 0);
    CHECK_EQ(read_answers(fd, 1), 0);
    close(fd);
    slam_responder_counts(r, &counts);
    CHECK_EQ(counts.protocol_errors, 1);
    slam_responder_destroy(r);
}

TEST(client_that_does_not_read_gets_everything_later)
{
    enum { REQUESTS = 60000 }; /* 11 MB of answers: more than the sockets hold */
    struct slam_responder_options options = {0};
    static uint8_t requests[REQUESTS * sizeof(search_request)];
    size_t sent = 0;

    CHECK(start(&options));
    int fd = connect_tcp();
    CHECK(fd >= 0);
    for (int i = 0; i < REQUESTS; i++) {
        memcpy(requests + (size_t)i * sizeof(search_request), search_request,
               sizeof(search_request));
    }
    while (sent < sizeof(requests)) {
        ssize_t n = send(fd, requests + sent, sizeof(requests) - sent, MSG_DONTWAIT);

        if (n < 0)
            break; /* the responder reads no more until we read */
        sent += (size_t)n;
    }
    CHECK_EQ(read_answers(fd, (int)(sent / sizeof(search_request))),
             sent / sizeof(search_request));
    close(fd);
    slam_responder_destroy(r);
}

TEST(unix_socket_is_served_and_removed)
{
    char path[64];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct slam_responder_options options = {.socket_path = path,
                                             .record_capacity = 10};
    size_t recorded;

    snprintf(path, sizeof(path), "/tmp/slam-test-%ld.sock", (long)getpid());
    memcpy(address.sun_path, path, strlen(path));
    CHECK(start(&options));
    CHECK_EQ(slam_responder_port(r), 0);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    CHECK(write(fd, search_request, sizeof(search_request)) > 0);
    CHECK_EQ(read_answers(fd, 1), 1);
    slam_responder_record(r, &recorded);
    CHECK_EQ(recorded, 1);
    close(fd);
    slam_responder_destroy(r);
    CHECK(access(path, F_OK) < 0);
}

TEST(options_that_cannot_be_are_refused_with_the_reason)
{
    static const struct slam_delay no_weight = {0, 5};
    struct slam_responder_options weights = {.delays = &no_weight, .delay_count = 1};
    struct slam_responder_options path = {.socket_path = "/nonexistent/slam.sock"};
    struct slam_responder_options empty = {.socket_path = ""};

    CHECK_EQ(slam_responder_create(&weights, &r, err), SLAM_EINVAL);
    CHECK(strstr(err, "weights") != NULL);
    CHECK_EQ(slam_responder_create(&path, &r, err), SLAM_ESYS);
    CHECK(strstr(err, "No such file") != NULL);
    CHECK_EQ(slam_responder_create(&empty, &r, err), SLAM_EINVAL);
}
