/* SPDX-License-Identifier: Apache-2.0 */
/* Lengths and integers of BER (X.690 8.1.3, 8.3) as LDAP has them: definite, at most
 * four octets (RFC 4511 5.1). */
#ifndef SLAM_BER_H
#define SLAM_BER_H

#include <stddef.h>
#include <stdint.h>

enum {
    SLAM_BER_BOOLEAN = 0x01,
    SLAM_BER_INTEGER = 0x02,
    SLAM_BER_OCTET_STRING = 0x04,
    SLAM_BER_ENUMERATED = 0x0a,
    SLAM_BER_SEQUENCE = 0x30,
    SLAM_BER_SET = 0x31
};

/* Reads a TLV's tag and length. Returns the bytes they take; 0: more are needed; -1:
 * LDAP does not allow the length. */
static inline int
slam_ber_read_header(const uint8_t *at, size_t available, uint8_t *tag, size_t *length)
{
    unsigned int octets;

    if (available < 2)
        return 0;
    *tag = at[0];
    *length = at[1];
    if (at[1] < 0x80)
        return 2;
    octets = at[1] & 0x7fu;
    if (octets == 0 || octets > 4)
        return -1;
    if (available - 2 < octets)
        return 0;
    *length = 0;
    for (unsigned int i = 0; i < octets; i++)
        *length = *length << 8 | at[2 + i];
    return 2 + (int)octets;
}

/* Bytes of a TLV's tag and length, the fewest. */
static inline uint8_t
slam_ber_header_len(size_t length)
{
    return length < 0x80 ? 2 : length < 0x100 ? 3 : length < 0x10000 ? 4 : 5;
}

/* Writes a TLV's tag and length in slam_ber_header_len bytes. Returns their end. */
static inline uint8_t *
slam_ber_put_header(uint8_t *at, uint8_t tag, size_t length)
{
    const uint8_t bytes = slam_ber_header_len(length);

    at[0] = tag;
    at[1] = (uint8_t)(0x80u | (bytes - 2u));
    if (bytes == 2)
        at[1] = (uint8_t)length;
    for (uint8_t i = bytes; i-- > 2; length >>= 8)
        at[i] = (uint8_t)length;
    return at + bytes;
}

/* Content octets of a value, the fewest, at most four: the first bit is the sign. */
static inline uint8_t
slam_ber_integer_len(uint32_t value)
{
    uint8_t octets = 1;

    while (octets < 4 && value >> (8 * octets - 1) != 0)
        octets++;
    return octets;
}

/* Writes them. Returns their end. */
static inline uint8_t *
slam_ber_put_integer(uint8_t *at, uint32_t value)
{
    for (uint8_t i = slam_ber_integer_len(value); i-- > 0;)
        *at++ = (uint8_t)(value >> (8 * i));
    return at;
}

/* Writes a messageID as a TLV of up to six bytes. Returns its end. */
static inline uint8_t *
slam_ber_put_message_id(uint8_t *at, int32_t message_id)
{
    uint8_t *end = slam_ber_put_integer(at + 2, (uint32_t)message_id);

    at[0] = SLAM_BER_INTEGER;
    at[1] = (uint8_t)(end - at - 2);
    return end;
}

#endif
