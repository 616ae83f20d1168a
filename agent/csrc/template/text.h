/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of text: escaped texts, numbers, base64. */
#ifndef SLAM_TEXT_H
#define SLAM_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLAM_TEXT_DIGITS_MAX 20u /* of a uint64_t */

enum slam_text_form {
    SLAM_FORM_PLAIN = 0,
    SLAM_FORM_DN_VALUE = 1,   /* escaped as a value in a DN (RFC 4514) */
    SLAM_FORM_UNDERSCORES = 2 /* in the place of commas */
};

/* Length of the first `limit` bytes of a UTF-8 text, in whole characters; 0: all. */
uint32_t slam_text_cut(const uint8_t *text, uint32_t len, uint32_t limit);

/* Writes what `limit` leaves of a text, in a form. Returns its end. */
uint8_t *slam_text_put(enum slam_text_form form, const uint8_t *text, uint32_t len,
                       uint32_t limit, uint8_t *at);
/* The most bytes that slam_text_put writes of a text of at most len bytes. */
size_t slam_text_put_max(enum slam_text_form form, size_t len, uint32_t limit);

/* Writes n with at least `width` digits; returns its end. */
uint8_t *slam_text_put_number(uint64_t n, uint32_t width, uint8_t *at);

/* Turns [at, at + len) into base64 that begins at `at` + shift, shift <= 1; its end. */
uint8_t *slam_text_encode_in_place(uint8_t *at, size_t len, size_t shift);

static inline size_t
slam_text_base64_len(size_t len)
{
    return (len + 2) / 3 * 4;
}

/* Printable ASCII only: no base64 in LDIF, but for a blank, ':' or '<' at its ends. */
bool slam_text_is_plain(const uint8_t *text, size_t len);

#endif
