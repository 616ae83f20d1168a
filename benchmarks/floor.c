/* SPDX-License-Identifier: Apache-2.0 */
/* The floor: the least that a client of the same bytes costs. One thread, one epoll
 * loop, closed loop over N connections: write a request, wait, read the response,
 * again. It looks at nothing that it reads but its length, and measures nothing but its
 * own CPU.
 *
 *     floor PORT|SOCKET_PATH CONNECTIONS RUN_MS WARM_UP_MS REQUEST_HEX RESPONSE_BYTES
 *
 * prints, of the time after the warm-up: completed, cpu_ns, wall_ns, run_queue_ns
 * (ready to run, but another process had the CPU).
 *
 * With FLOOR_TLS the same over GnuTLS. The handshakes come before the warm-up; the
 * certificate is not looked at: handshakes are not what is compared. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifdef FLOOR_TLS
#include <gnutls/gnutls.h>
#endif

#define EVENTS 256

struct connection {
    int fd;
    size_t received; /* bytes of the current response */
#ifdef FLOOR_TLS
    gnutls_session_t session;
#endif
};

static uint8_t request[4096];
static size_t request_len;

static void
fail(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t
now_ns(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

/* What this thread has waited for a CPU so far; 0 where the kernel does not tell. */
static uint64_t
run_queue_ns(void)
{
    unsigned long long on_cpu, waited = 0;
    FILE *file = fopen("/proc/thread-self/schedstat", "r");

    if (!file)
        return 0;
    if (fscanf(file, "%llu %llu", &on_cpu, &waited) != 2)
        waited = 0;
    fclose(file);
    return waited;
}

static void
read_request(const char *hex)
{
    for (; hex[0] && hex[1] && request_len < sizeof(request); hex += 2) {
        const char digits[3] = {hex[0], hex[1], '\0'};

        request[request_len++] = (uint8_t)strtoul(digits, NULL, 16);
    }
}

/* -- the socket: bytes as they are, or over TLS; 0 received: nothing yet -- */

#ifdef FLOOR_TLS

static void
open_transport(struct connection *c)
{
    static gnutls_certificate_credentials_t credentials;
    int rc;

    if (!credentials)
        gnutls_certificate_allocate_credentials(&credentials);
    gnutls_init(&c->session, GNUTLS_CLIENT);
    gnutls_set_default_priority(c->session);
    gnutls_credentials_set(c->session, GNUTLS_CRD_CERTIFICATE, credentials);
    gnutls_transport_set_int(c->session, c->fd);
    do
        rc = gnutls_handshake(c->session);
    while (rc < 0 && !gnutls_error_is_fatal(rc));
    if (rc < 0)
        fail("gnutls_handshake");
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
}

static ssize_t
send_bytes(const struct connection *c, const uint8_t *bytes, size_t len)
{
    return gnutls_record_send(c->session, bytes, len);
}

static ssize_t
receive_bytes(const struct connection *c, uint8_t *bytes, size_t len)
{
    ssize_t got = gnutls_record_recv(c->session, bytes, len);

    if (got == GNUTLS_E_AGAIN || got == GNUTLS_E_INTERRUPTED)
        return 0;
    return got > 0 ? got : -1;
}

#else

static void
open_transport(struct connection *c)
{
    (void)c;
}

static ssize_t
send_bytes(const struct connection *c, const uint8_t *bytes, size_t len)
{
    return write(c->fd, bytes, len);
}

static ssize_t
receive_bytes(const struct connection *c, uint8_t *bytes, size_t len)
{
    ssize_t got = recv(c->fd, bytes, len, MSG_DONTWAIT);

    return got > 0 ? got : -1;
}

#endif

/* -- the loop -- */

static void
send_request(const struct connection *c)
{
    if (send_bytes(c, request, request_len) != (ssize_t)request_len)
        fail("write");
}

static int
connect_to(const char *where)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)strtoul(where, NULL, 10))};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    const bool is_path = where[0] == '/';
    const struct sockaddr *address =
        is_path ? (struct sockaddr *)&un : (struct sockaddr *)&in;
    const int on = 1;
    int fd = socket(address->sa_family, SOCK_STREAM, 0);

    strncpy(un.sun_path, where, sizeof(un.sun_path) - 1);
    if (fd < 0 || connect(fd, address, is_path ? sizeof(un) : sizeof(in)) < 0)
        fail("connect");
    if (!is_path)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

/* Returns the responses completed in one turn of the loop. */
static uint64_t
turn(int epoll_fd, size_t response_len)
{
    static uint8_t response[65536];
    struct epoll_event events[EVENTS];
    uint64_t completed = 0;
    int n = epoll_wait(epoll_fd, events, EVENTS, 1000);

    for (int i = 0; i < n; i++) {
        struct connection *c = events[i].data.ptr;
        ssize_t got = receive_bytes(c, response, sizeof(response));

        if (got < 0)
            fail("recv");
        c->received += (size_t)got;
        if (c->received >= response_len) {
            c->received -= response_len;
            completed++;
            send_request(c);
        }
    }
    return completed;
}

int
main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: floor PORT|SOCKET_PATH CONNECTIONS RUN_MS WARM_UP_MS "
                        "REQUEST_HEX RESPONSE_BYTES\n");
        return 2;
    }
    size_t count = strtoul(argv[2], NULL, 10);
    uint64_t run_ns = strtoull(argv[3], NULL, 10) * 1000000;
    uint64_t warm_up_ns = strtoull(argv[4], NULL, 10) * 1000000;
    size_t response_len = strtoul(argv[6], NULL, 10);
    struct connection *connections = calloc(count, sizeof(*connections));
    int epoll_fd = epoll_create1(0);

    if (!connections || epoll_fd < 0)
        fail("set-up");
    read_request(argv[5]);
    for (size_t i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &connections[i]};

        connections[i].fd = connect_to(argv[1]);
        open_transport(&connections[i]);
        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, connections[i].fd, &event) < 0)
            fail("epoll_ctl");
    }
    for (size_t i = 0; i < count; i++)
        send_request(&connections[i]);

    uint64_t warm_ns = now_ns(CLOCK_MONOTONIC) + warm_up_ns;
    uint64_t start_ns;
    do {
        turn(epoll_fd, response_len);
        start_ns = now_ns(CLOCK_MONOTONIC);
    } while (start_ns < warm_ns);
    uint64_t start_wait_ns = run_queue_ns();
    uint64_t start_cpu_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t completed = 0;
    uint64_t end_ns;
    do {
        completed += turn(epoll_fd, response_len);
        end_ns = now_ns(CLOCK_MONOTONIC);
    } while (end_ns < start_ns + run_ns);
    uint64_t cpu_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns;

    uint64_t wait_ns = run_queue_ns() - start_wait_ns;
    printf("%llu %llu %llu %llu\n", (unsigned long long)completed,
           (unsigned long long)cpu_ns, (unsigned long long)(end_ns - start_ns),
           (unsigned long long)wait_ns);
    return 0;
}
