/* SPDX-License-Identifier: Apache-2.0 */
/* Causes of a failed set-up of a connection, the generator's and the target's, and of
 * the loss of one. */
#ifndef SLAM_CAUSE_H
#define SLAM_CAUSE_H

#include <errno.h>
#include <stdbool.h>

/* The only list of them: X(name). Those of the generator come last. */
#define SLAM_CAUSE_LIST(X)                                                             \
    X(other_cause)                                                                     \
    X(refused)        /* ECONNREFUSED; ENOENT of a local socket */                     \
    X(reset)          /* ECONNRESET, EPIPE */                                          \
    X(closed)         /* the server ended the connection during its set-up */          \
    X(no_answer)      /* ETIMEDOUT, or no answer in the set-up's time */               \
    X(unreachable)    /* EHOSTUNREACH, EHOSTDOWN */                                    \
    X(tls_failed)     /* the handshake, or the server's certificate */                 \
    X(bind_failed)    /* a result code of the bind or of StartTLS */                   \
    X(no_port)        /* EADDRNOTAVAIL */                                              \
    X(no_descriptor)  /* EMFILE, ENFILE */                                             \
    X(no_memory)      /* ENOBUFS, ENOMEM */                                            \
    X(no_route)       /* ENETUNREACH, ENETDOWN */                                      \
    X(not_permitted)  /* EACCES, EPERM: a local firewall, a socket's mode */           \
    X(no_credentials) /* a ticket, key or mechanism of the client */

/* The only list of them: X(name). */
#define SLAM_LOSS_LIST(X)                                                              \
    X(lost_otherwise)                                                                  \
    X(lost_idle)    /* closed or reset with no request in flight */                    \
    X(lost_closed)  /* with requests in flight */                                      \
    X(lost_reset)   /* ECONNRESET, EPIPE, with requests in flight */                   \
    X(lost_silent)  /* its requests timed out, or nothing was read of it */            \
    X(lost_notice)  /* after an unsolicited notification */                            \
    X(lost_invalid) /* after a message that is none of LDAP, or not in its place */

#define SLAM_CAUSE_CONSTANT(name) SLAM_CAUSE_##name,

enum slam_cause { SLAM_CAUSE_LIST(SLAM_CAUSE_CONSTANT) SLAM_CAUSES };
enum slam_loss { SLAM_LOSS_LIST(SLAM_CAUSE_CONSTANT) SLAM_LOSSES };

static inline bool
slam_cause_is_own(enum slam_cause cause)
{
    return cause >= SLAM_CAUSE_no_port;
}

/* Why a read or a write failed; 0: at the end of the stream. */
static inline enum slam_loss
slam_loss_of_errno(int fault)
{
    switch (fault) {
    case 0:
        return SLAM_CAUSE_lost_closed;
    case ECONNRESET:
    case EPIPE:
        return SLAM_CAUSE_lost_reset;
    case ETIMEDOUT:
        return SLAM_CAUSE_lost_silent;
    default:
        return SLAM_CAUSE_lost_otherwise;
    }
}

/* The cause of a failed connect or socket call. */
static inline enum slam_cause
slam_cause_of_errno(int fault)
{
    switch (fault) {
    case EADDRNOTAVAIL:
    case EADDRINUSE:
        return SLAM_CAUSE_no_port;
    case EMFILE:
    case ENFILE:
        return SLAM_CAUSE_no_descriptor;
    case ENOBUFS:
    case ENOMEM:
    case ENOSPC: /* of epoll: too many descriptors are watched */
        return SLAM_CAUSE_no_memory;
    case ENETUNREACH:
    case ENETDOWN:
    case EAFNOSUPPORT:
        return SLAM_CAUSE_no_route;
    case EACCES:
    case EPERM:
        return SLAM_CAUSE_not_permitted;
    case ECONNREFUSED:
    case ENOENT:
        return SLAM_CAUSE_refused;
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
        return SLAM_CAUSE_reset;
    case ETIMEDOUT:
        return SLAM_CAUSE_no_answer;
    case EHOSTUNREACH:
    case EHOSTDOWN:
        return SLAM_CAUSE_unreachable;
    default:
        return SLAM_CAUSE_other_cause;
    }
}

#endif
