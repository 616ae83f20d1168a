/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of a SASL bind that is itself the load: what libldap does for the
 * set-up of connections, without a connection, so that a worker can take the steps
 * between its other requests. sasl.c is the only user of libsasl's client API.
 *
 * A step computes; it does no I/O, but GSSAPI's first, which asks the KDC for a ticket
 * where the credential cache has none. SCRAM derives a key of the password, PBKDF2 with
 * the server's iteration count, in the step that answers the server's first message:
 * 4096 iterations of SHA-256 are milliseconds, in which the worker sends nothing else.
 */
#ifndef SLAM_SASL_H
#define SLAM_SASL_H

#include <stddef.h>
#include <stdint.h>

struct slam_sasl; /* one bind; one thread at a time */

/* Begins a bind. The texts are copied, and the password's copy is erased at the end;
 * authzid and realm may be NULL. `host` is the server's name, which GSSAPI and
 * DIGEST-MD5 need. slam_transport_init comes before. Returns 0 and *sasl, or a slam_err
 * with the reason in err. Any thread. */
int slam_sasl_create(const char *mechanism, const char *host, const char *authcid,
                     const uint8_t *password, size_t password_len, const char *authzid,
                     const char *realm, struct slam_sasl **sasl, char *err);

/* One step. The first has in NULL and gives the first credentials; the others have the
 * serverSaslCreds of the response before, NULL when it had none. *out is NULL when the
 * next request is to have no credentials, which is not the same as empty ones; it stays
 * valid until the next call.
 *
 * The server's result code leads: while it is saslBindInProgress (14), its credentials
 * go into a step and *out into the next request. When it is success and the response
 * has credentials, they go into a last step, whose *out is not sent: it checks that the
 * server knew the password too. Returns 0 when the client is content, 1 when it needs
 * another step, or a negative slam_err when the bind has failed on this side. */
int slam_sasl_step(struct slam_sasl *sasl, const uint8_t *in, size_t in_len,
                   const uint8_t **out, size_t *out_len);

/* Why a step failed; valid until the next call. */
const char *slam_sasl_error(const struct slam_sasl *sasl);

/* NULL is allowed. */
void slam_sasl_destroy(struct slam_sasl *sasl);

#endif
