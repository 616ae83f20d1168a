/* SPDX-License-Identifier: Apache-2.0 */
#include "ldap/content.h"

#include "core/ber.h"
#include "ldap/pdu.h"

#include <string.h>
#include <strings.h>

#define TAG_CONTROLS 0xa0u
#define TAG_SASL_CREDENTIALS 0x87u

static const char PAGED_RESULTS[] = "1.2.840.113556.1.4.319";

/* Takes the next TLV off *rest; where `cut` is set, one that is cut off too. */
static bool
take_up_to(struct slam_bytes *rest, uint8_t *tag, struct slam_bytes *content, bool cut)
{
    size_t left, len;
    int bytes = slam_ber_read_header(rest->at, rest->len, tag, &len);

    if (bytes <= 0)
        return false;
    left = rest->len - (size_t)bytes;
    if (len > left && !cut)
        return false;
    len = len < left ? len : left;
    *content = (struct slam_bytes){.at = rest->at + bytes, .len = len};
    rest->at += (size_t)bytes + len;
    rest->len = left - len;
    return true;
}

static bool
take(struct slam_bytes *rest, uint8_t *tag, struct slam_bytes *content)
{
    return take_up_to(rest, tag, content, false);
}

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

    return take_up_to(&whole, tag, after, true) && *tag == SLAM_BER_SEQUENCE &&
           take_tag(after, SLAM_BER_INTEGER, &id) && take_up_to(after, tag, op, true);
}

static bool
open_entry(const uint8_t *message, size_t len, struct slam_bytes *dn,
           struct slam_bytes *attributes)
{
    struct slam_bytes op, after;
    uint8_t tag;

    *attributes = (struct slam_bytes){0};
    return open_message(message, len, &tag, &op, &after) &&
           tag == SLAM_PDU_SEARCH_ENTRY && take_tag(&op, SLAM_BER_OCTET_STRING, dn) &&
           (op.len == 0 ||
            (take_up_to(&op, &tag, attributes, true) && tag == SLAM_BER_SEQUENCE));
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
    while (take_tag(&attributes, SLAM_BER_SEQUENCE, &attribute)) {
        struct slam_bytes type, values;

        if (!take_tag(&attribute, SLAM_BER_OCTET_STRING, &type) ||
            !take_tag(&attribute, SLAM_BER_SET, &values))
            return false;
        if (type.len == description_len &&
            strncasecmp((const char *)type.at, (const char *)description, type.len) ==
                0)
            return take_tag(&values, SLAM_BER_OCTET_STRING, value);
    }
    return false;
}

/* The value of a control, where it is the paged results one. */
static bool
paged_results_value(struct slam_bytes control, struct slam_bytes *value)
{
    struct slam_bytes oid;
    uint8_t tag;

    if (!take_tag(&control, SLAM_BER_OCTET_STRING, &oid) ||
        oid.len != sizeof(PAGED_RESULTS) - 1 ||
        memcmp(oid.at, PAGED_RESULTS, oid.len) != 0 || !take(&control, &tag, value))
        return false;
    if (tag == SLAM_BER_BOOLEAN && !take(&control, &tag, value))
        return false;
    return tag == SLAM_BER_OCTET_STRING;
}

bool
slam_content_cookie(const uint8_t *message, size_t len, struct slam_bytes *cookie)
{
    struct slam_bytes op, after, controls, control;
    uint8_t tag;

    if (!open_message(message, len, &tag, &op, &after) ||
        !take_tag(&after, TAG_CONTROLS, &controls))
        return false;
    while (take_tag(&controls, SLAM_BER_SEQUENCE, &control)) {
        struct slam_bytes value, fields, size;

        if (paged_results_value(control, &value))
            return take_tag(&value, SLAM_BER_SEQUENCE, &fields) &&
                   take_tag(&fields, SLAM_BER_INTEGER, &size) &&
                   take_tag(&fields, SLAM_BER_OCTET_STRING, cookie);
    }
    return false;
}

/* Takes the first three fields of an LDAPResult; the rest of it is in *op. */
static bool
open_result(const uint8_t *message, size_t len, uint8_t *tag, struct slam_bytes *op,
            struct slam_bytes *diagnostic)
{
    struct slam_bytes after, field;

    return open_message(message, len, tag, op, &after) &&
           take_tag(op, SLAM_BER_ENUMERATED, &field) &&
           take_tag(op, SLAM_BER_OCTET_STRING, &field) &&
           take_tag(op, SLAM_BER_OCTET_STRING, diagnostic);
}

bool
slam_content_diagnostic(const uint8_t *message, size_t len,
                        struct slam_bytes *diagnostic)
{
    struct slam_bytes op;
    uint8_t tag;

    return open_result(message, len, &tag, &op, diagnostic);
}

bool
slam_content_credentials(const uint8_t *message, size_t len,
                         struct slam_bytes *credentials)
{
    struct slam_bytes op, field;
    uint8_t tag;

    *credentials = (struct slam_bytes){0};
    if (!open_result(message, len, &tag, &op, &field) || tag != SLAM_PDU_BIND_RESPONSE)
        return false;
    while (op.len > 0) {
        if (!take(&op, &tag, &field))
            return false;
        if (tag == TAG_SASL_CREDENTIALS)
            *credentials = field;
    }
    return true;
}
