/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of a SASL bind that is itself the load: what libldap does in a
 * set-up, without a connection, so that a worker can take the steps between its other
 * requests.
 *
 * A step computes. Only GSSAPI's first may do I/O, where the credential cache has no
 * ticket. SCRAM derives a key of the password (PBKDF2): 4096 iterations of SHA-256 take
 * milliseconds, in which the worker sends nothing. */
#ifndef SLAM_SASL_H
#define SLAM_SASL_H

#include <stddef.h>
#include <stdint.h>

struct slam_sasl; /* one bind; one thread at a time */

/* Begins a bind. The texts are copied, and the copy of the password is erased; authzid
 * and realm may be NULL. `host` is the server's name, for GSSAPI and DIGEST-MD5.
 * slam_transport_init comes before. Any thread. */
int slam_sasl_create(const char *mechanism, const char *host, const char *authcid,
                     const uint8_t *password, size_t password_len, const char *authzid,
                     const char *realm, struct slam_sasl **sasl);

/* One step. `in` is NULL in the first, else the serverSaslCreds of the last response
 * (NULL: none). *out is valid until the next call; NULL: the request has no
 * credentials, which differs from empty ones.
 *
 * While the result code is saslBindInProgress (14), its credentials go into a step and
 * *out into the next request. Credentials of a success go into a last step, which
 * checks the server's proof; its *out is not sent. Returns 0: the client is content, 1:
 * it needs another step, or a slam_err: the bind has failed on this side. */
int slam_sasl_step(struct slam_sasl *sasl, const uint8_t *in, size_t in_len,
                   const uint8_t **out, size_t *out_len);

/* NULL is allowed. */
void slam_sasl_destroy(struct slam_sasl *sasl);

#endif
