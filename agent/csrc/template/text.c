/* SPDX-License-Identifier: Apache-2.0 */
#include "template/text.h"

#include <string.h>

bool
slam_text_is_plain(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] < 0x20 || bytes[i] > 0x7e)
            return false;
    return true;
}

static bool
begins_character(uint8_t byte)
{
    return (byte & 0xc0u) != 0x80u;
}

uint32_t
slam_text_cut(const uint8_t *text, uint32_t len, uint32_t limit)
{
    if (limit == 0 || len <= limit)
        return len;
    len = limit;
    while (len > 0 && !begins_character(text[len]))
        len--;
    return len;
}

/* RFC 4514 section 2.4. */
static uint8_t *
put_dn_value(const uint8_t *text, uint32_t len, uint8_t *at)
{
    static const bool is_special[256] = {
        [','] = true, ['+'] = true, ['"'] = true, ['\\'] = true,
        ['<'] = true, ['>'] = true, [';'] = true};

    for (uint32_t i = 0; i < len; i++) {
        const uint8_t c = text[i];
        const bool at_end = i == 0 || i + 1 == len;

        if (c == '\0') {
            memcpy(at, "\\00", 3);
            at += 3;
            continue;
        }
        if (is_special[c] || (c == ' ' && at_end) || (c == '#' && i == 0))
            *at++ = '\\';
        *at++ = c;
    }
    return at;
}

uint8_t *
slam_text_put(enum slam_text_form form, const uint8_t *text, uint32_t len,
              uint32_t limit, uint8_t *at)
{
    len = slam_text_cut(text, len, limit);
    if (form == SLAM_FORM_DN_VALUE)
        return put_dn_value(text, len, at);
    memcpy(at, text, len);
    for (uint32_t i = 0; form == SLAM_FORM_UNDERSCORES && i < len; i++)
        if (at[i] == ',')
            at[i] = '_';
    return at + len;
}

size_t
slam_text_put_max(enum slam_text_form form, size_t len, uint32_t limit)
{
    if (limit > 0 && limit < len)
        len = limit;
    return form == SLAM_FORM_DN_VALUE ? 3 * len : len;
}

uint8_t *
slam_text_put_number(uint64_t n, uint32_t width, uint8_t *at)
{
    uint8_t digits[SLAM_TEXT_DIGITS_MAX];
    size_t first = sizeof(digits), count, zeros;

    do {
        digits[--first] = (uint8_t)('0' + n % 10);
        n /= 10;
    } while (n != 0);
    count = sizeof(digits) - first;
    zeros = width > count ? width - count : 0;
    memset(at, '0', zeros);
    memcpy(at + zeros, digits + first, count);
    return at + zeros + count;
}

/* Writes len bytes in base64, which lie far enough behind `at` in the same buffer. */
static uint8_t *
put_base64(uint8_t *at, const uint8_t *from, size_t len)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (; len >= 3; len -= 3, from += 3) {
        const uint32_t bits =
            (uint32_t)from[0] << 16 | (uint32_t)from[1] << 8 | (uint32_t)from[2];

        *at++ = (uint8_t)digits[bits >> 18];
        *at++ = (uint8_t)digits[bits >> 12 & 0x3f];
        *at++ = (uint8_t)digits[bits >> 6 & 0x3f];
        *at++ = (uint8_t)digits[bits & 0x3f];
    }
    if (len > 0) {
        const uint32_t bits =
            (uint32_t)from[0] << 16 | (len > 1 ? (uint32_t)from[1] << 8 : 0);

        *at++ = (uint8_t)digits[bits >> 18];
        *at++ = (uint8_t)digits[bits >> 12 & 0x3f];
        *at++ = (uint8_t)(len > 1 ? digits[bits >> 6 & 0x3f] : '=');
        *at++ = '=';
    }
    return at;
}

uint8_t *
slam_text_encode_in_place(uint8_t *at, size_t len, size_t shift)
{
    uint8_t *from = at + shift + slam_text_base64_len(len) - len;

    memmove(from, at, len);
    return put_base64(at + shift, from, len);
}
