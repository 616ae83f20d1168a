/* SPDX-License-Identifier: Apache-2.0 */
/* Set-up of connections: what is sent and timed, and that nobody waits for another. */
#include "core/clock.h"
#include "core/slam_err.h"
#include "ldap/connector.h"
#include "ldap/sasl.h"
#include "responder/responder.h"
#include "slam_test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

static char user_dn[] = "cn=user";
static char password[] = "secret";

/* As a connector thread has it. */
__attribute__((constructor)) static void
set_up(void)
{
    signal(SIGPIPE, SIG_IGN);
    slam_transport_init();
}

static struct slam_responder *
start_responder(void)
{
    struct slam_responder_options options = {0};
    struct slam_responder *responder = NULL;
    char err[SLAM_ERR_LEN];

    if (slam_responder_create(&options, &responder, err) != SLAM_OK ||
        slam_responder_start(responder, err) != SLAM_OK) {
        fprintf(stderr, "responder: %s\n", err);
        exit(1);
    }
    return responder;
}

static uint64_t
requests(const struct slam_responder *responder, enum slam_canned_kind kind)
{
    struct slam_responder_counts counts;

    slam_responder_counts(responder, &counts);
    return counts.requests[kind];
}

struct target {
    char uri[64];
    const char *uris[1];
    struct slam_connection_settings config;
};

static struct slam_connection_settings *
target(struct target *t, unsigned int port)
{
    memset(t, 0, sizeof(*t));
    snprintf(t->uri, sizeof(t->uri), "ldap://127.0.0.1:%u", port);
    t->uris[0] = t->uri;
    t->config = (struct slam_connection_settings){
        .uris = t->uris,
        .uri_count = 1,
        .tls = {.verify = true},
        .bind = {.dn = user_dn,
                 .password = password,
                 .password_len = sizeof(password) - 1},
        .connect_timeout_ns = 1000 * MS};
    return &t->config;
}

static void *
storage(void)
{
    void *memory = aligned_alloc(SLAM_CACHE_LINE, slam_transport_size());

    return memset(memory, 0, slam_transport_size());
}

TEST(set_up_is_counted_and_timed_step_by_step)
{
    struct slam_responder *responder = start_responder();
    struct target t;
    const struct slam_connection_settings *config =
        target(&t, slam_responder_port(responder));
    struct slam_conn_error error;
    struct slam_transport_setup setup;
    struct slam_transport *transport;
    void *memory = storage();

    CHECK_EQ(slam_transport_open(config, 0, memory, &transport, &setup, &error),
             SLAM_OK);
    CHECK_EQ(setup.binds, 1);
    CHECK_EQ(setup.extended, 0);
    CHECK_EQ(setup.tls_ns, 0);
    CHECK(setup.connect_ns > 0);
    CHECK(setup.bind_ns > 0);
    CHECK(setup.total_ns >= setup.connect_ns + setup.bind_ns);
    CHECK_EQ(requests(responder, SLAM_CANNED_BIND), 1);
    slam_transport_close(transport);
    slam_transport_close(NULL);
    slam_responder_destroy(responder);
    free(memory);
}

TEST(anonymous_client_sends_no_bind)
{
    struct slam_responder *responder = start_responder();
    struct target t;
    struct slam_connection_settings *config =
        target(&t, slam_responder_port(responder));
    struct slam_conn_error error;
    struct slam_transport_setup setup;
    struct slam_transport *transport;
    void *memory = storage();

    config->bind.dn = NULL;
    CHECK_EQ(slam_transport_open(config, 0, memory, &transport, &setup, &error),
             SLAM_OK);
    CHECK_EQ(setup.binds, 0);
    CHECK_EQ(setup.bind_ns, 0);
    slam_transport_close(transport);
    CHECK_EQ(requests(responder, SLAM_CANNED_BIND), 0);
    slam_responder_destroy(responder);
    free(memory);
}

TEST(refused_start_tls_is_counted)
{
    struct slam_responder *responder = start_responder();
    struct target t;
    struct slam_connection_settings *config =
        target(&t, slam_responder_port(responder));
    struct slam_conn_error error;
    struct slam_transport_setup setup;
    struct slam_transport *transport;
    void *memory = storage();

    config->tls.start_tls = true;
    CHECK_EQ(slam_transport_open(config, 0, memory, &transport, &setup, &error),
             SLAM_ECONNECT);
    CHECK_EQ(error.stage, SLAM_STAGE_TLS);
    CHECK_EQ(error.code, 2);
    CHECK_EQ(setup.extended, 1);
    CHECK_EQ(setup.binds, 0);
    CHECK_EQ(requests(responder, SLAM_CANNED_START_TLS), 1);
    CHECK_EQ(requests(responder, SLAM_CANNED_UNBIND), 0);
    slam_responder_destroy(responder);
    free(memory);
}

TEST(what_cannot_be_used_is_known_before_the_first_connection)
{
    static char missing[] = "/nonexistent/ca.pem";
    static char mechanism[] = "NO-SUCH-MECHANISM";
    struct target t;
    struct slam_connection_settings *config = target(&t, 1);
    struct slam_conn_error error;

    config->bind.mechanism = mechanism;
    CHECK_EQ(slam_connection_settings_prepare(config, &error), SLAM_ECONNECT);
    CHECK_EQ(error.stage, SLAM_STAGE_BIND);
    CHECK(strstr(error.detail, mechanism) != NULL);
    CHECK(strstr(error.detail, "EXTERNAL") != NULL);
    config->bind.mechanism = NULL;
    config->tls.ca_file = missing;
    CHECK_EQ(slam_connection_settings_prepare(config, &error),
             SLAM_OK); /* no TLS: not read */
    config->tls.start_tls = true;
    CHECK_EQ(slam_connection_settings_prepare(config, &error), SLAM_ECONNECT);
    CHECK_EQ(error.stage, SLAM_STAGE_TLS);
    CHECK(strstr(error.detail, missing) != NULL);
    slam_connection_settings_release(config);
}

/* -- connector -- */

struct bench {
    struct slam_inbox inbox;
    struct slam_connector *connector;
    struct slam_connect_request *requests;
    size_t count;
};

static void
bench_open(struct bench *b, size_t threads, size_t count)
{
    CHECK_EQ(slam_inbox_init(&b->inbox), SLAM_OK);
    CHECK_EQ(slam_connector_create(threads, count, &b->connector), SLAM_OK);
    b->requests = calloc(count, sizeof(*b->requests));
    b->count = count;
    for (size_t i = 0; i < count; i++) {
        b->requests[i].inbox = &b->inbox;
        b->requests[i].storage = storage();
    }
}

static void
bench_close(struct bench *b)
{
    slam_connector_destroy(b->connector);
    for (size_t i = 0; i < b->count; i++) {
        slam_transport_close(b->requests[i].transport);
        free(b->requests[i].storage);
    }
    free(b->requests);
    slam_inbox_destroy(&b->inbox);
}

static struct slam_connect_request *
next_delivery(struct bench *b, int timeout_ms)
{
    struct pollfd fd = {.fd = b->inbox.event_fd, .events = POLLIN};
    eventfd_t deliveries;

    if (poll(&fd, 1, timeout_ms) != 1)
        return NULL;
    eventfd_read(b->inbox.event_fd, &deliveries);
    return slam_inbox_take(&b->inbox);
}

/* A server that takes connections and says nothing. */
static int
listen_at(unsigned int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t address_len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    if (listener < 0 ||
        bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(listener, 128) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &address_len) != 0) {
        perror("listen");
        exit(1);
    }
    *port = ntohs(address.sin_port);
    return listener;
}

TEST(server_that_is_silent_keeps_no_other_waiting)
{
    enum { SILENT = 40 };
    unsigned int port;
    int listener = listen_at(&port);
    struct slam_responder *responder = start_responder();
    struct target silent;
    struct target prompt;
    struct bench b;

    target(&silent, port);
    target(&prompt, slam_responder_port(responder));
    /* on a busy machine too, one is through before the others give up */
    silent.config.connect_timeout_ns = 3000 * MS;
    prompt.config.connect_timeout_ns = 30000 * MS;
    bench_open(&b, SLAM_CONNECTOR_THREADS, SILENT + 1);
    for (size_t i = 0; i <= SILENT; i++)
        b.requests[i].config = i < SILENT ? &silent.config : &prompt.config;
    for (size_t i = 0; i <= SILENT; i++)
        slam_connector_submit(b.connector, &b.requests[i], 0);
    struct slam_connect_request *first = next_delivery(&b, 30000);
    bool is_prompt = first == &b.requests[SILENT];
    bool is_set_up = is_prompt && first->transport != NULL;
    uint64_t binds = is_prompt ? first->setup.binds : 0;

    /* before the checks: they return, and connectors still use the bench */
    bench_close(&b);
    close(listener);
    slam_responder_destroy(responder);
    CHECK(is_prompt);
    CHECK(is_set_up);
    CHECK_EQ(binds, 1);
}

TEST(set_ups_begin_when_they_are_due)
{
    enum { LINKS = 10 };
    struct slam_responder *responder = start_responder();
    struct slam_conn_error error;
    struct target t;
    struct bench b;
    uint64_t start_ns;

    target(&t, slam_responder_port(responder));
    bench_open(&b, 4, LINKS);
    start_ns = slam_clock_mono_ns();
    for (size_t i = 0; i < LINKS; i++) {
        b.requests[i].config = &t.config;
        slam_connector_submit(b.connector, &b.requests[i], start_ns + i * 10 * MS);
    }
    CHECK_EQ(slam_connector_wait(b.connector, &error), SLAM_OK);
    CHECK(slam_clock_mono_ns() - start_ns >= (LINKS - 1) * 10 * MS);
    CHECK_EQ(requests(responder, SLAM_CANNED_BIND), LINKS);
    bench_close(&b);
    slam_responder_destroy(responder);
}

TEST(old_connection_ends_at_once_whenever_the_new_one_is_due)
{
    struct slam_conn_error error;
    struct target t;
    struct bench b;
    unsigned int port;
    int listener = listen_at(&port);
    int accepted;
    char byte;

    target(&t, port)->bind.dn = NULL;
    bench_open(&b, 2, 1);
    b.requests[0].config = &t.config;
    slam_connector_submit(b.connector, &b.requests[0], 0);
    CHECK_EQ(slam_connector_wait(b.connector, &error), SLAM_OK);
    accepted = accept(listener, NULL, NULL);
    slam_connector_submit(b.connector, &b.requests[0],
                          slam_clock_mono_ns() + 60000 * MS);
    CHECK_EQ(recv(accepted, &byte, 1, 0), 0);
    bench_close(&b);
    close(accepted);
    close(listener);
}

TEST(new_connection_is_made_when_due_though_others_wait_longer)
{
    static const struct timespec pause = {.tv_nsec = 50 * (long)MS};
    struct slam_responder *responder = start_responder();
    struct slam_conn_error error;
    struct target t;
    struct bench b;

    target(&t, slam_responder_port(responder));
    bench_open(&b, 2, 2);
    for (size_t i = 0; i < 2; i++) {
        b.requests[i].config = &t.config;
        slam_connector_submit(b.connector, &b.requests[i], 0);
    }
    CHECK_EQ(slam_connector_wait(b.connector, &error), SLAM_OK);
    while (next_delivery(&b, 0) != NULL)
        ;
    /* a thread waits for the first of them, when the second one's transport was closed
     */
    slam_connector_submit(b.connector, &b.requests[0],
                          slam_clock_mono_ns() + 60000 * MS);
    nanosleep(&pause, NULL);
    slam_connector_submit(b.connector, &b.requests[1], slam_clock_mono_ns() + 100 * MS);
    CHECK(next_delivery(&b, 5000) == &b.requests[1]);
    bench_close(&b);
    slam_responder_destroy(responder);
}

TEST(first_failure_ends_the_wait)
{
    struct slam_conn_error error;
    struct target t;
    struct bench b;

    target(&t, 1);
    bench_open(&b, 2, 3);
    for (size_t i = 0; i < 3; i++) {
        b.requests[i].config = &t.config;
        slam_connector_submit(b.connector, &b.requests[i],
                              slam_clock_mono_ns() + i * 60000 * MS);
    }
    CHECK_EQ(slam_connector_wait(b.connector, &error), SLAM_ECONNECT);
    CHECK_EQ(error.stage, SLAM_STAGE_CONNECT);
    bench_close(&b);
}

/* -- SASL as load -- */

TEST(sasl_plain_is_one_step_with_both_names)
{
    struct slam_sasl *sasl = NULL;
    const uint8_t *out;
    size_t out_len;

    CHECK_EQ(slam_sasl_create("PLAIN", "localhost", "user", (const uint8_t *)"pw", 2,
                              "other", NULL, &sasl),
             SLAM_OK);
    CHECK_EQ(slam_sasl_step(sasl, NULL, 0, &out, &out_len), 0);
    CHECK_EQ(out_len, 13);
    CHECK_EQ(memcmp(out, "other\0user\0pw", 13), 0);
    slam_sasl_destroy(sasl);
}

TEST(sasl_mechanism_that_is_not_there_fails_its_first_step)
{
    struct slam_sasl *sasl = NULL;
    const uint8_t *out;
    size_t out_len;

    CHECK_EQ(slam_sasl_create("NO-SUCH", "localhost", "user", (const uint8_t *)"pw", 2,
                              NULL, NULL, &sasl),
             SLAM_OK);
    CHECK(slam_sasl_step(sasl, NULL, 0, &out, &out_len) < 0);
    slam_sasl_destroy(sasl);
}
