/* SPDX-License-Identifier: Apache-2.0 */
/* What a session takes out of a response (RFC 4511): the DN or a value of an entry, the
 * cookie of a paged search, the credentials of a bind. A long one may be cut off at its
 * end: what stands before the cut is found. Called for streams
 * that need it only; pdu.h splits messages without looking at their content.
 *
 * Pure. Everything read here is hostile: each length is checked against the one around
 * it. What is found points into the message. */
#ifndef SLAM_CONTENT_H
#define SLAM_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slam_bytes {
    const uint8_t *at;
    size_t len;
};

/* objectName of a SearchResultEntry. False where the message is not a sound one. */
bool slam_content_dn(const uint8_t *message, size_t len, struct slam_bytes *dn);

/* First value of an attribute of a SearchResultEntry; the description is compared
 * without regard to case. False where there is none. */
bool slam_content_attribute(const uint8_t *message, size_t len,
                            const uint8_t *description, size_t description_len,
                            struct slam_bytes *value);

/* Cookie of the paged results control (RFC 2696) of any response. False where the
 * response has no such control; an empty cookie ends the search. */
bool slam_content_cookie(const uint8_t *message, size_t len, struct slam_bytes *cookie);

/* serverSaslCreds of a BindResponse; empty where there are none. False where the
 * message is not a sound one. */
bool slam_content_credentials(const uint8_t *message, size_t len,
                              struct slam_bytes *credentials);

#endif
