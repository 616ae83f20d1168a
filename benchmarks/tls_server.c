/* SPDX-License-Identifier: Apache-2.0 */
/* The canned server's answers over TLS (GnuTLS), for both clients of the comparison.
 * One thread, one epoll loop.
 *
 *     tls_server CERTIFICATE_FILE KEY_FILE
 *
 * prints its URI, then the number of searches answered for every line on stdin; ends
 * with stdin. */
#include "responder/canned.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 256

struct client {
    int fd;
    gnutls_session_t session;
    bool greeted; /* the handshake is over */
    uint8_t input[8192];
    size_t input_len;
};

static gnutls_certificate_credentials_t credentials;
static int epoll_fd;
static uint64_t searches;

static void
fail(const char *what)
{
    perror(what);
    exit(1);
}

static void
watch(int fd, void *data)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = data};

    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        fail("epoll_ctl");
}

static void
accept_clients(int listen_fd)
{
    const int on = 1;
    int fd;

    while ((fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        struct client *c = calloc(1, sizeof(*c));

        if (!c)
            fail("calloc");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        c->fd = fd;
        gnutls_init(&c->session, GNUTLS_SERVER | GNUTLS_NONBLOCK);
        gnutls_set_default_priority(c->session);
        gnutls_credentials_set(c->session, GNUTLS_CRD_CERTIFICATE, credentials);
        gnutls_transport_set_int(c->session, fd);
        watch(fd, c);
    }
}

static void
drop(struct client *c)
{
    gnutls_deinit(c->session);
    close(c->fd);
    free(c);
}

/* Answers the complete requests; what is left moves to the beginning. False: drop. */
static bool
answer(struct client *c)
{
    uint8_t output[16384];
    size_t output_len = 0;
    size_t used = 0;
    struct slam_canned_request request;
    int found;

    while ((found = slam_canned_parse(c->input + used, c->input_len - used,
                                      &request)) == 1) {
        used += request.len;
        if (request.kind == SLAM_CANNED_UNBIND)
            return false;
        searches += request.kind == SLAM_CANNED_SEARCH;
        if (slam_canned_has_answer(request.kind) &&
            output_len + SLAM_CANNED_ANSWER_MAX <= sizeof(output))
            output_len += slam_canned_answer(request.kind, request.message_id,
                                             output + output_len);
    }
    c->input_len -= used;
    memmove(c->input, c->input + used, c->input_len);
    return found == 0 && c->input_len < sizeof(c->input) &&
           (output_len == 0 ||
            gnutls_record_send(c->session, output, output_len) == (ssize_t)output_len);
}

/* One turn of a client that has sent something. False: drop. */
static bool
serve(struct client *c)
{
    if (!c->greeted) {
        int rc = gnutls_handshake(c->session);

        if (rc != GNUTLS_E_SUCCESS)
            return !gnutls_error_is_fatal(rc);
        c->greeted = true;
    }
    do {
        ssize_t got = gnutls_record_recv(c->session, c->input + c->input_len,
                                         sizeof(c->input) - c->input_len);

        if (got == GNUTLS_E_AGAIN || got == GNUTLS_E_INTERRUPTED)
            return true;
        if (got <= 0)
            return false;
        c->input_len += (size_t)got;
        if (!answer(c))
            return false;
    } while (gnutls_record_check_pending(c->session) > 0);
    return true;
}

static int
listen_on_loopback(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t address_len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(fd, SOMAXCONN) < 0)
        fail("listen");
    getsockname(fd, (struct sockaddr *)&address, &address_len);
    printf("ldaps://127.0.0.1:%u\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

/* False: stdin has ended. */
static bool
tell(void)
{
    char line[16];

    if (!fgets(line, sizeof(line), stdin))
        return false;
    printf("%llu\n", (unsigned long long)searches);
    fflush(stdout);
    return true;
}

int
main(int argc, char **argv)
{
    struct epoll_event events[EVENTS];
    int listen_fd;

    if (argc != 3) {
        fprintf(stderr, "usage: tls_server CERTIFICATE_FILE KEY_FILE\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    gnutls_certificate_allocate_credentials(&credentials);
    if (gnutls_certificate_set_x509_key_file(credentials, argv[1], argv[2],
                                             GNUTLS_X509_FMT_PEM) < 0) {
        fprintf(stderr, "tls_server: cannot use %s and %s\n", argv[1], argv[2]);
        return 1;
    }
    epoll_fd = epoll_create1(0);
    listen_fd = listen_on_loopback();
    watch(listen_fd, &listen_fd);
    watch(STDIN_FILENO, stdin);
    for (;;) {
        int n = epoll_wait(epoll_fd, events, EVENTS, -1);

        for (int i = 0; i < n; i++) {
            void *data = events[i].data.ptr;

            if (data == &listen_fd)
                accept_clients(listen_fd);
            else if (data != stdin && !serve(data))
                drop(data);
            else if (data == stdin && !tell())
                return 0;
        }
    }
}
