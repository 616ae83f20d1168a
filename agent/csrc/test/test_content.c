/* SPDX-License-Identifier: Apache-2.0 */
#include "ldap/content.h"
#include "slam_test.h"

/* id 5, entry "cn=a", attributes cn: a, b and mail without values */
static const uint8_t entry[] = {
    0x30, 0x25, 0x02, 0x01, 0x05, 0x64, 0x20, 0x04, 0x04, 'c',  'n',  '=',  'a',
    0x30, 0x18, 0x30, 0x0c, 0x04, 0x02, 'c',  'n',  0x31, 0x06, 0x04, 0x01, 'a',
    0x04, 0x01, 'b',  0x30, 0x08, 0x04, 0x04, 'm',  'a',  'i',  'l',  0x31, 0x00};

/* id 6, searchResultDone, controls: another one, then paged results with a cookie xy */
static const uint8_t page[] = {
    0x30, 0x43, 0x02, 0x01, 0x06, 0x65, 0x07, 0x0a, 0x01, 0x00, 0x04, 0x00, 0x04, 0x00,
    0xa0, 0x35, 0x30, 0x0c, 0x04, 0x03, '1',  '.',  '2',  0x01, 0x01, 0xff, 0x04, 0x02,
    0x30, 0x00, 0x30, 0x25, 0x04, 0x16, '1',  '.',  '2',  '.',  '8',  '4',  '0',  '.',
    '1',  '1',  '3',  '5',  '5',  '6',  '.',  '1',  '.',  '4',  '.',  '3',  '1',  '9',
    0x04, 0x0b, 0x30, 0x09, 0x02, 0x01, 0x00, 0x04, 0x04, 'x',  'y',  0x00, 0xff};

/* id 7, bindResponse saslBindInProgress with serverSaslCreds "r=1" */
static const uint8_t bind_response[] = {0x30, 0x11, 0x02, 0x01, 0x07, 0x61, 0x0c,
                                        0x0a, 0x01, 0x0e, 0x04, 0x00, 0x04, 0x00,
                                        0x87, 0x03, 'r',  '=',  '1'};

static bool
is(const struct slam_bytes *bytes, const char *text)
{
    return bytes->len == strlen(text) && memcmp(bytes->at, text, bytes->len) == 0;
}

TEST(dn_and_first_value_are_found_whatever_the_case)
{
    const uint8_t *cn = (const uint8_t *)"CN";
    struct slam_bytes found;

    CHECK(slam_content_dn(entry, sizeof(entry), &found));
    CHECK(is(&found, "cn=a"));
    CHECK(slam_content_attribute(entry, sizeof(entry), cn, 2, &found));
    CHECK(is(&found, "a"));
}

TEST(attribute_that_is_absent_or_empty_is_not_found)
{
    struct slam_bytes found;

    CHECK(!slam_content_attribute(entry, sizeof(entry), (const uint8_t *)"sn", 2,
                                  &found));
    CHECK(!slam_content_attribute(entry, sizeof(entry), (const uint8_t *)"mail", 4,
                                  &found));
}

TEST(cookie_is_found_behind_other_controls)
{
    struct slam_bytes cookie;

    CHECK(slam_content_cookie(page, sizeof(page), &cookie));
    CHECK_EQ(cookie.len, 4);
    CHECK(memcmp(cookie.at, "xy\0\xff", 4) == 0);
    CHECK(!slam_content_cookie(entry, sizeof(entry), &cookie));
}

TEST(credentials_are_empty_where_there_are_none)
{
    static const uint8_t bare[] = {0x30, 0x0c, 0x02, 0x01, 0x07, 0x61, 0x07,
                                   0x0a, 0x01, 0x00, 0x04, 0x00, 0x04, 0x00};
    struct slam_bytes credentials;

    CHECK(slam_content_credentials(bind_response, sizeof(bind_response), &credentials));
    CHECK(is(&credentials, "r=1"));
    CHECK(slam_content_credentials(bare, sizeof(bare), &credentials));
    CHECK_EQ(credentials.len, 0);
    CHECK(!slam_content_credentials(entry, sizeof(entry), &credentials));
}

TEST(diagnostic_message_is_that_of_any_result)
{
    static const uint8_t refusal[] = {0x30, 0x13, 0x02, 0x01, 0x07, 0x69, 0x0e,
                                      0x0a, 0x01, 0x35, 0x04, 0x02, 'o',  '=',
                                      0x04, 0x05, 'n',  'e',  'v',  'e',  'r'};
    static const uint8_t broken[] = {0x30, 0x0c, 0x02, 0x01, 0x07, 0x69, 0x07,
                                     0x0a, 0x01, 0x35, 0x04, 0x00, 0x04, 0x01};
    struct slam_bytes diagnostic;

    CHECK(slam_content_diagnostic(refusal, sizeof(refusal), &diagnostic));
    CHECK(is(&diagnostic, "never"));
    for (size_t len = 0; len < sizeof(refusal); len++)
        CHECK(!slam_content_diagnostic(refusal, len, &diagnostic));
    CHECK(!slam_content_diagnostic(broken, sizeof(broken), &diagnostic));
    CHECK(!slam_content_diagnostic(entry, sizeof(entry), &diagnostic));
}

static bool
is_within(const struct slam_bytes *found, const uint8_t *bytes, size_t len)
{
    return found->len == 0 ||
           (found->at >= bytes && found->at + found->len <= bytes + len);
}

TEST(what_is_found_in_a_cut_message_stands_before_the_cut)
{
    struct slam_bytes found;

    for (size_t len = 0; len < sizeof(entry); len++) {
        const uint8_t *cn = (const uint8_t *)"cn";

        if (slam_content_dn(entry, len, &found)) {
            CHECK(len >= 13);
            CHECK(is(&found, "cn=a"));
            CHECK(is_within(&found, entry, len));
        }
        if (slam_content_attribute(entry, len, cn, 2, &found))
            CHECK(is(&found, "a"));
    }
    for (size_t len = 0; len < sizeof(page); len++)
        CHECK(!slam_content_cookie(page, len, &found));
    for (size_t len = 0; len < sizeof(bind_response); len++)
        if (slam_content_credentials(bind_response, len, &found))
            CHECK_EQ(found.len, 0);
}
