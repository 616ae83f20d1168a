/* SPDX-License-Identifier: Apache-2.0 */
#include "ldap/content.h"

#include "ldap/pdu.h"

#include <string.h>
#include <strings.h>

#define TAG_BOOLEAN 0x01u
#define TAG_INTEGER 0x02u
#define TAG_OCTET_STRING 0x04u
#define TAG_ENUMERATED 0x0au
#define TAG_SEQUENCE 0x30u
#define TAG_SET 0x31u
#define TAG_CONTROLS 0xa0u
#define TAG_SASL_CREDENTIALS 0x87u

static const char PAGED_RESULTS[] = "1.2.840.113556.1.4.319";

/* Takes the next TLV off the front of *rest (X.690 8.1.3, definite lengths of at most
 * four octets); one that is cut off only where `cut` allows it. */
static bool
take_up_to(struct slam_bytes *rest, uint8_t *tag, struct slam_bytes *content, bool cut)
{
    const uint8_t *at = rest->at;
    size_t left = rest->len;
    size_t len;

    if (left < 2)
        return false;
    *tag = at[0];
    len = at[1];
    at += 2;
    left -= 2;
    if (len >= 0x80u) {
        size_t octets = len & 0x7fu;

        if (octets == 0 || octets > 4 || left < octets)
            return false;
        len = 0;
        for (size_t i = 0; i < octets; i++)
            len = len << 8 | at[i];
        at += octets;
        left -= octets;
    }
    if (len > left && !cut)
        return false;
    len = len < left ? len : left;
    *content = (struct slam_bytes){.at = at, .len = len};
    rest->at = at + len;
    rest->len = left - len;
    return true;
}

static bool
take(struct slam_bytes *rest, uint8_t *tag, struct slam_bytes *content)
{
    return take_up_to(rest, tag, content, false);
}

/* The next TLV, which must have this tag. */
static bool
take_tag(struct slam_bytes *rest, uint8_t expected, struct slam_bytes *content)
{
    uint8_t tag;

    return take(rest, &tag, content) && tag == expected;
}

/* Splits a message into its operation and what follows it (the controls). */
static bool
open_message(const uint8_t *message, size_t len, uint8_t *tag, struct slam_bytes *op,
             struct slam_bytes *after)
{
    struct slam_bytes whole = {.at = message, .len = len};
    struct slam_bytes id;

    return take_up_to(&whole, tag, after, true) && *tag == TAG_SEQUENCE &&
           take_tag(after, TAG_INTEGER, &id) && take_up_to(after, tag, op, true);
}

static bool
open_entry(const uint8_t *message, size_t len, struct slam_bytes *dn,
           struct slam_bytes *attributes)
{
    struct slam_bytes op, after;
    uint8_t tag;

    *attributes = (struct slam_bytes){0};
    return open_message(message, len, &tag, &op, &after) &&
           tag == SLAM_PDU_SEARCH_ENTRY && take_tag(&op, TAG_OCTET_STRING, dn) &&
           (op.len == 0 ||
            (take_up_to(&op, &tag, attributes, true) && tag == TAG_SEQUENCE));
}

bool
slam_content_dn(const uint8_t *message, size_t len, struct slam_bytes *dn)
{
    struct slam_bytes attributes;

    return open_entry(message, len, dn, &attributes);
}

bool
slam_content_attribute(const uint8_t *message, size_t len, const uint8_t *description,
                       size_t description_len, struct slam_bytes *value)
{
    struct slam_bytes dn, attributes, attribute;

    if (!open_entry(message, len, &dn, &attributes))
        return false;
    while (take_tag(&attributes, TAG_SEQUENCE, &attribute)) {
        struct slam_bytes type, values;

        if (!take_tag(&attribute, TAG_OCTET_STRING, &type) ||
            !take_tag(&attribute, TAG_SET, &values))
            return false;
        if (type.len == description_len &&
            strncasecmp((const char *)type.at, (const char *)description, type.len) ==
                0)
            return take_tag(&values, TAG_OCTET_STRING, value);
    }
    return false;
}

/* The value of a control, where it is the paged results one. */
static bool
paged_results_value(struct slam_bytes control, struct slam_bytes *value)
{
    struct slam_bytes oid;
    uint8_t tag;

    if (!take_tag(&control, TAG_OCTET_STRING, &oid) ||
        oid.len != sizeof(PAGED_RESULTS) - 1 ||
        memcmp(oid.at, PAGED_RESULTS, oid.len) != 0 || !take(&control, &tag, value))
        return false;
    if (tag == TAG_BOOLEAN && !take(&control, &tag, value))
        return false;
    return tag == TAG_OCTET_STRING;
}

bool
slam_content_cookie(const uint8_t *message, size_t len, struct slam_bytes *cookie)
{
    struct slam_bytes op, after, controls, control;
    uint8_t tag;

    if (!open_message(message, len, &tag, &op, &after) ||
        !take_tag(&after, TAG_CONTROLS, &controls))
        return false;
    while (take_tag(&controls, TAG_SEQUENCE, &control)) {
        struct slam_bytes value, fields, size;

        if (paged_results_value(control, &value))
            return take_tag(&value, TAG_SEQUENCE, &fields) &&
                   take_tag(&fields, TAG_INTEGER, &size) &&
                   take_tag(&fields, TAG_OCTET_STRING, cookie);
    }
    return false;
}

bool
slam_content_credentials(const uint8_t *message, size_t len,
                         struct slam_bytes *credentials)
{
    struct slam_bytes op, after, field;
    uint8_t tag;

    *credentials = (struct slam_bytes){0};
    if (!open_message(message, len, &tag, &op, &after) ||
        tag != SLAM_PDU_BIND_RESPONSE || !take_tag(&op, TAG_ENUMERATED, &field) ||
        !take_tag(&op, TAG_OCTET_STRING, &field) ||
        !take_tag(&op, TAG_OCTET_STRING, &field))
        return false;
    while (op.len > 0) {
        if (!take(&op, &tag, &field))
            return false;
        if (tag == TAG_SASL_CREDENTIALS)
            *credentials = field;
    }
    return true;
}
