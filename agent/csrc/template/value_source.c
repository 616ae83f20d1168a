/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a value source before the first draw: that its figures make sense,
 * its longest text, its tables. */
#include "core/slam_err.h"
#include "template/text.h"
#include "template/values_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHARSET_MAX 256u
#define LIST_MAX (1u << 20) /* bytes of a list */
#define UUID_LEN 36u
#define MESSAGE_ID_LEN 4u

/* Members that a double numbers exactly. */
#define DRAWN_MEMBERS_MAX (UINT64_C(1) << 53)

/* ms after 1970 of the years 0001 to 9999, which four digits can write */
#define MS_MIN INT64_C(-62135596800000)
#define MS_MAX INT64_C(253402300799999)

struct reason {
    char *err;
    size_t err_len;
};

__attribute__((format(printf, 2, 3))) static int
refuse(const struct reason *to, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(to->err, to->err_len, format, args);
    va_end(args);
    return SLAM_EINVAL;
}

static int
prepare_numbers(struct slam_value_source *src, const struct reason *why)
{
    bool descends = src->lo > src->hi && src->kind == SLAM_VALUE_SEQUENCE;
    uint64_t width = descends ? (uint64_t)src->lo - (uint64_t)src->hi
                              : (uint64_t)src->hi - (uint64_t)src->lo;
    size_t lo_len = slam_value_number_len(src->lo, src->width);
    size_t hi_len = slam_value_number_len(src->hi, src->width);

    if (src->hi < src->lo && !descends)
        return refuse(why, "the range %" PRId64 "..%" PRId64 " is empty", src->lo,
                      src->hi);
    if (src->step < 1)
        return refuse(why, "a step is at least 1, got %" PRId64, src->step);
    if (width / (uint64_t)src->step >= INT64_MAX)
        return refuse(why,
                      "the range %" PRId64 "..%" PRId64 " has more than 2^63 - 1 "
                      "members",
                      src->lo, src->hi);
    if (src->width > SLAM_VALUE_MAX_LEN - 1)
        return refuse(why, "a number has at most %u digits, got %" PRIu32,
                      SLAM_VALUE_MAX_LEN - 1, src->width);
    src->members = width / (uint64_t)src->step + 1;
    /* The magnitude is greatest at an end of the range. */
    src->max_len = lo_len > hi_len ? lo_len : hi_len;
    return SLAM_OK;
}

static int
prepare_drawn(struct slam_value_source *src, const struct reason *why)
{
    int rc = prepare_numbers(src, why);

    if (rc == SLAM_OK && src->members > DRAWN_MEMBERS_MAX)
        return refuse(why, "this distribution has at most 2^53 members, got %" PRIu64,
                      src->members);
    return rc;
}

static int
prepare_zipf(struct slam_value_source *src, const struct reason *why)
{
    double s = src->a;
    int rc = prepare_drawn(src, why);

    if (rc != SLAM_OK)
        return rc;
    if (!(s > 0 && s <= 64))
        return refuse(why, "a Zipf exponent is above 0 and at most 64, got %g", s);
    src->prepared.zipf.low = slam_zipf_integral(1.5, s) - 1;
    src->prepared.zipf.high = slam_zipf_integral((double)src->members + 0.5, s);
    src->prepared.zipf.shortcut =
        2 - slam_zipf_inverse(slam_zipf_integral(2.5, s) - slam_zipf_h(2, s), s);
    return SLAM_OK;
}

static int
prepare_hot(struct slam_value_source *src, const struct reason *why)
{
    int rc = prepare_drawn(src, why);

    if (rc != SLAM_OK)
        return rc;
    if (!(src->a > 0 && src->a < 1))
        return refuse(why, "the share of hot members lies between 0 and 1, got %g",
                      src->a);
    if (!(src->b >= 0 && src->b <= 1))
        return refuse(why, "the fraction of draws lies within 0 and 1, got %g", src->b);
    if (src->members < 2)
        return refuse(why, "of one member none can be hot alone");
    src->prepared.hot = (uint64_t)nearbyint(src->a * (double)src->members);
    if (src->prepared.hot < 1)
        src->prepared.hot = 1;
    if (src->prepared.hot >= src->members)
        src->prepared.hot = src->members - 1;
    return SLAM_OK;
}

static int
prepare_string(struct slam_value_source *src, const struct reason *why)
{
    int64_t longest = src->hi > src->lo ? src->hi : src->lo;

    if (src->lo < 0 || longest < 1 || longest > (int64_t)SLAM_VALUE_MAX_LEN)
        return refuse(why, "a random string has 1 to %u characters, got %" PRId64,
                      SLAM_VALUE_MAX_LEN, src->lo < 0 ? src->lo : longest);
    if (src->data_len < 1 || src->data_len > CHARSET_MAX)
        return refuse(why, "a charset has 1 to %u characters, got %zu", CHARSET_MAX,
                      src->data_len);
    src->max_len = (size_t)longest;
    return SLAM_OK;
}

static int
prepare_timestamp(struct slam_value_source *src, const struct reason *why)
{
    if (src->lo < MS_MIN || src->hi > MS_MAX || src->lo > src->hi)
        return refuse(why,
                      "the times %" PRId64 "..%" PRId64 " ms are not a range "
                      "within the years 1 to 9999",
                      src->lo, src->hi);
    switch (src->step) {
    case SLAM_TIMESTAMP_GENERALIZED:
        src->max_len = sizeof("20180102030405.678Z") - 1;
        return SLAM_OK;
    case SLAM_TIMESTAMP_MILLISECONDS:
    case SLAM_TIMESTAMP_SECONDS:
        src->max_len = sizeof("-62135596800000") - 1;
        return SLAM_OK;
    case SLAM_TIMESTAMP_TEXT:
        if (src->data_len < 1 || src->data_len > SLAM_VALUE_MAX_LEN / 2)
            return refuse(why, "a time's format has 1 to %u bytes, got %zu",
                          SLAM_VALUE_MAX_LEN / 2, src->data_len);
        src->max_len = 2 * src->data_len; /* two bytes make at most four: %Y */
        return SLAM_OK;
    default:
        return refuse(why, "unknown format %" PRId64 " of times", src->step);
    }
}

static uint32_t
read_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
           (uint32_t)at[3] << 24;
}

static int
prepare_list(struct slam_value_source *src, const struct reason *why)
{
    /* An entry has at least 8 bytes; all of them are bounded by LIST_MAX. */
    struct slam_choice *choices = NULL;
    uint64_t weight = 0;
    size_t at = 0, count = 0;

    if (src->data_len > LIST_MAX)
        return refuse(why, "a list has at most %u bytes, got %zu", LIST_MAX,
                      src->data_len);
    choices = calloc(src->data_len / 8 + 1, sizeof(*choices));
    if (!choices) {
        refuse(why, "no memory for a list");
        return SLAM_ENOMEM;
    }
    while (src->data_len - at >= 8) {
        uint32_t len = read_u32(src->data + at + 4);

        weight += read_u32(src->data + at);
        at += 8;
        if (len > src->data_len - at || len > SLAM_VALUE_MAX_LEN)
            break;
        choices[count++] =
            (struct slam_choice){.end = weight, .offset = (uint32_t)at, .len = len};
        if (len > src->max_len)
            src->max_len = len;
        at += len;
    }
    if (at != src->data_len || weight == 0) {
        free(choices);
        return refuse(why,
                      weight == 0 ? "a list needs an entry with a weight"
                                  : "entry %zu of a list is cut off or too long",
                      count);
    }
    src->members = count;
    src->prepared.choices = choices;
    return SLAM_OK;
}

static int
prepare_file(struct slam_value_source *src, struct slam_feeds *feeds,
             const struct reason *why)
{
    int rc;

    if (!feeds)
        return refuse(why, "files of values need a registry of feeds");
    rc = slam_feeds_open(feeds, (const char *)src->data, src->data_len, &src->feed,
                         why->err, why->err_len);
    if (rc == SLAM_OK) {
        src->members = src->feed->count;
        src->max_len = src->feed->longest;
    }
    return rc;
}

static int
prepare_variable(struct slam_value_source *src, const struct reason *why)
{
    if (src->lo < 0 || src->lo > UINT16_MAX)
        return refuse(why, "a variable has a number from 0 to %u, got %" PRId64,
                      UINT16_MAX, src->lo);
    if (src->hi < 0 || src->hi > (int64_t)SLAM_VARIABLE_MAX)
        return refuse(why, "a variable has at most %u bytes, got %" PRId64,
                      SLAM_VARIABLE_MAX, src->hi);
    if (src->width > SLAM_FORM_FILTER_FINAL)
        return refuse(why, "unknown form %" PRIu32 " of a variable", src->width);
    src->max_len = src->hi > 0 ? (size_t)src->hi : SLAM_VARIABLE_MAX;
    if (src->kind == SLAM_VALUE_VARIABLE)
        src->max_len = slam_text_put_max((enum slam_text_form)src->width,
                                         SLAM_VARIABLE_MAX, (uint32_t)src->hi);
    return SLAM_OK;
}

static int
prepare_kind(struct slam_value_source *src, struct slam_feeds *feeds,
             const struct reason *why)
{
    switch (src->kind) {
    case SLAM_VALUE_UNIFORM:
    case SLAM_VALUE_SEQUENCE:
        return prepare_numbers(src, why);
    case SLAM_VALUE_STRING:
        return prepare_string(src, why);
    case SLAM_VALUE_ZIPF:
        return prepare_zipf(src, why);
    case SLAM_VALUE_GAUSS:
        return prepare_drawn(src, why);
    case SLAM_VALUE_HOT:
        return prepare_hot(src, why);
    case SLAM_VALUE_FILE_RANDOM:
    case SLAM_VALUE_FILE_SEQUENCE:
        return prepare_file(src, feeds, why);
    case SLAM_VALUE_TIMESTAMP:
        return prepare_timestamp(src, why);
    case SLAM_VALUE_UUID:
        src->max_len = UUID_LEN;
        return SLAM_OK;
    case SLAM_VALUE_REF:
        if (src->lo < 0 || src->hi < 0 || src->hi > (int64_t)SLAM_VALUE_MAX_LEN)
            return refuse(why, "a reference names no value: %" PRId64, src->lo);
        return SLAM_OK;
    case SLAM_VALUE_UNIQUE:
        if (src->lo < 0 || src->step < 1 || src->width > SLAM_VALUE_MAX_LEN)
            return refuse(why,
                          "unique numbers start at 0 or above in steps of at "
                          "least 1, got %" PRId64 " and %" PRId64,
                          src->lo, src->step);
        src->max_len =
            src->width > SLAM_TEXT_DIGITS_MAX ? src->width : SLAM_TEXT_DIGITS_MAX;
        return SLAM_OK;
    case SLAM_VALUE_VARIABLE:
    case SLAM_VALUE_PARENT:
        return prepare_variable(src, why);
    case SLAM_VALUE_MESSAGE_ID:
        src->max_len = MESSAGE_ID_LEN;
        return SLAM_OK;
    case SLAM_VALUE_LIST:
        return prepare_list(src, why);
    }
    return refuse(why, "unknown kind of value source %d", (int)src->kind);
}

int
slam_value_source_prepare(struct slam_value_source *src, struct slam_feeds *feeds,
                          char *err, size_t err_len)
{
    const struct reason why = {.err = err, .err_len = err_len};
    uint8_t *data = NULL;
    int rc;

    src->feed = NULL;
    src->members = 0;
    src->max_len = 0;
    memset(&src->prepared, 0, sizeof(src->prepared));
    rc = prepare_kind(src, feeds, &why);
    if (rc != SLAM_OK)
        return rc;
    if (src->data_len > 0) {
        data = malloc(src->data_len);
        if (!data) {
            snprintf(err, err_len, "no memory for a value source");
            if (src->kind == SLAM_VALUE_LIST)
                free(src->prepared.choices);
            return SLAM_ENOMEM;
        }
        memcpy(data, src->data, src->data_len);
    }
    src->data = data;
    return SLAM_OK;
}

void
slam_value_source_release(struct slam_value_source *src)
{
    free((void *)(uintptr_t)src->data);
    if (src->kind == SLAM_VALUE_LIST)
        free(src->prepared.choices);
}
