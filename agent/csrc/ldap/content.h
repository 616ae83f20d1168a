/* SPDX-License-Identifier: Apache-2.0 */
/* What is read from a response beyond its head (RFC 4511): an entry's DN or value, a
 * page's cookie, a bind's credentials, a diagnostic message. In an entry or a page that
 * is cut off, what stands before the cut is found.
 *
 * Pure. The input is hostile: each length is checked against the one around it. What is
 * found points into the message. */
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

/* First value of an attribute of a SearchResultEntry; the case is ignored. */
bool slam_content_attribute(const uint8_t *message, size_t len,
                            const uint8_t *description, size_t description_len,
                            struct slam_bytes *value);

/* Cookie of a response's paged results control (RFC 2696); empty: last page. */
bool slam_content_cookie(const uint8_t *message, size_t len, struct slam_bytes *cookie);

/* serverSaslCreds of a BindResponse; empty: none. False: the message is malformed. */
bool slam_content_credentials(const uint8_t *message, size_t len,
                              struct slam_bytes *credentials);

/* diagnosticMessage of a response with a result code. False: it is malformed. */
bool slam_content_diagnostic(const uint8_t *message, size_t len,
                             struct slam_bytes *diagnostic);

#endif
