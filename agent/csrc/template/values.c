/* SPDX-License-Identifier: Apache-2.0 */
#include "template/values.h"

#include "core/ber.h"
#include "core/clock.h"
#include "core/slam_err.h"
#include "template/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
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

static uint64_t
magnitude(int64_t value)
{
    return value < 0 ? UINT64_C(0) - (uint64_t)value : (uint64_t)value;
}

/* The sign is not a digit. */
static uint8_t *
put_number(int64_t value, uint32_t width, uint8_t *at)
{
    if (value < 0)
        *at++ = '-';
    return slam_text_put_number(magnitude(value), width, at);
}

static size_t
number_len(int64_t value, uint32_t width)
{
    uint8_t digits[SLAM_TEXT_DIGITS_MAX];
    const size_t count =
        (size_t)(slam_text_put_number(magnitude(value), 0, digits) - digits);

    return (value < 0) + (width > count ? width : count);
}

static int64_t
member(const struct slam_value_source *src, uint64_t index)
{
    uint64_t distance = (uint64_t)src->step * index;

    /* In unsigned arithmetic: the range may be wider than INT64_MAX. */
    return (int64_t)(src->lo > src->hi ? (uint64_t)src->lo - distance
                                       : (uint64_t)src->lo + distance);
}

/* ln(1 + x) / x and (e^x - 1) / x, whose limits at 0 are 1. */
static double
log1p_over(double x)
{
    return fabs(x) > 1e-8 ? log1p(x) / x : 1 - x / 2;
}

static double
expm1_over(double x)
{
    return fabs(x) > 1e-8 ? expm1(x) / x : 1 + x / 2;
}

/* Rejection-inversion (W. Hörmann and G. Derflinger, Rejection-inversion to generate
 * variates from monotone discrete distributions, ACM TOMACS 6(3), 1996). With the
 * density h(x) = x^-s, its integral and that one's inverse
 *
 *     H(x) = (x^(1-s) - 1) / (1-s)        ln x for s = 1
 *     H^-1(y) = (1 + y (1-s))^(1/(1-s))   e^y for s = 1
 *
 * u is uniform between H(1.5) - h(1) and H(n + 0.5), x = H^-1(u), k = x rounded. k is
 * accepted where u >= H(k + 0.5) - h(k): of the interval of k that is the part of
 * length h(k), so the probability of k is proportional to h(k), exactly. Because h is
 * convex, k - x <= 2 - H^-1(H(2.5) - h(2)) implies acceptance without another H. On
 * average fewer than 1.1 turns, for any n and s. */
static double
zipf_h(double x, double s)
{
    return exp(-s * log(x));
}

static double
zipf_integral(double x, double s)
{
    double log_x = log(x);

    return expm1_over((1 - s) * log_x) * log_x;
}

static double
zipf_inverse(double y, double s)
{
    double t = y * (1 - s);

    if (t < -1) /* by rounding, at s near its greatest */
        t = -1;
    return exp(log1p_over(t) * y);
}

static uint64_t
draw_zipf(const struct slam_value_source *src, struct slam_rng *rng)
{
    double s = src->a, n = (double)src->members;

    for (;;) {
        double u =
            src->prepared.zipf.high +
            slam_rng_unit(rng) * (src->prepared.zipf.low - src->prepared.zipf.high);
        double x = zipf_inverse(u, s);
        double k = floor(x + 0.5);

        if (!(k > 1))
            k = 1;
        else if (k > n)
            k = n;
        if (k - x <= src->prepared.zipf.shortcut ||
            u >= zipf_integral(k + 0.5, s) - zipf_h(k, s))
            return (uint64_t)k - 1;
    }
}

/* The range of the members is six standard deviations wide, each member a bin of it. */
static uint64_t
draw_gauss(const struct slam_value_source *src, struct slam_rng *rng)
{
    uint64_t index;
    double z;

    do {
        z = slam_rng_normal(rng);
    } while (z < -3 || z >= 3);
    index = (uint64_t)((z + 3) / 6 * (double)src->members);
    return index < src->members ? index : src->members - 1;
}

static uint64_t
draw_hot(const struct slam_value_source *src, struct slam_rng *rng)
{
    uint64_t hot = src->prepared.hot;

    if (slam_rng_unit(rng) < src->b)
        return slam_rng_below(rng, hot);
    return hot + slam_rng_below(rng, src->members - hot);
}

static uint8_t *
put_bytes(const uint8_t *bytes, size_t len, uint8_t *at)
{
    memcpy(at, bytes, len);
    return at + len;
}

static uint8_t *
put_line(const struct slam_value_source *src, uint64_t line, uint8_t *at)
{
    size_t len;
    const uint8_t *text = slam_feed_line(src->feed, line, &len);

    return put_bytes(text, len, at);
}

static uint8_t *
put_string(const struct slam_value_source *src, struct slam_rng *rng, uint8_t *at)
{
    size_t len = (size_t)src->lo;

    if (src->hi > src->lo)
        len += (size_t)slam_rng_below(rng, (uint64_t)(src->hi - src->lo) + 1);
    slam_rng_bytes_below(rng, (uint32_t)src->data_len, at, len);
    for (uint8_t *end = at + len; at < end; at++)
        *at = src->data[*at];
    return at;
}

static uint8_t *
put_uuid(struct slam_rng *rng, uint8_t *at)
{
    static const char hex[] = "0123456789abcdef";
    uint64_t bits[2] = {slam_rng_next(rng), slam_rng_next(rng)};

    /* RFC 9562 5.4: version 4 in bits 48 to 51, variant 10 in bits 64 and 65 */
    bits[0] = (bits[0] & ~UINT64_C(0xf000)) | UINT64_C(0x4000);
    bits[1] = (bits[1] & ~(UINT64_C(3) << 62)) | UINT64_C(2) << 62;
    for (unsigned int i = 0; i < 32; i++) {
        if (i == 8 || i == 12 || i == 16 || i == 20)
            *at++ = '-';
        *at++ = (uint8_t)hex[bits[i / 16] >> (60 - i % 16 * 4) & 0xf];
    }
    return at;
}

/* The civil date of a day after 1970-01-01 (proleptic Gregorian). Years begin in March,
 * so that the leap day is the last; an era is 400 years, 146097 days. */
static void
civil_date(int64_t day, uint64_t *year, uint64_t *month, uint64_t *day_of_month)
{
    uint64_t since = (uint64_t)(day + 719468); /* from 0000-03-01; not negative here */
    uint64_t era = since / 146097, of_era = since % 146097;
    uint64_t year_of_era =
        (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    uint64_t of_year =
        of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    uint64_t from_march = (5 * of_year + 2) / 153;

    *day_of_month = of_year - (153 * from_march + 2) / 5 + 1;
    *month = from_march < 10 ? from_march + 3 : from_march - 9;
    *year = era * 400 + year_of_era + (*month <= 2);
}

/* 20180102030405.678Z */
static uint8_t *
put_generalized(int64_t ms, uint8_t *at)
{
    const int64_t ms_per_day = 86400000;
    int64_t day = ms / ms_per_day - (ms % ms_per_day < 0);
    uint64_t of_day = (uint64_t)(ms - day * ms_per_day);
    uint64_t year, month, day_of_month;

    civil_date(day, &year, &month, &day_of_month);
    at = slam_text_put_number(year, 4, at);
    at = slam_text_put_number(month, 2, at);
    at = slam_text_put_number(day_of_month, 2, at);
    at = slam_text_put_number(of_day / 3600000, 2, at);
    at = slam_text_put_number(of_day / 60000 % 60, 2, at);
    at = slam_text_put_number(of_day / 1000 % 60, 2, at);
    *at++ = '.';
    at = slam_text_put_number(of_day % 1000, 3, at);
    *at++ = 'Z';
    return at;
}

static uint8_t *
put_timestamp(const struct slam_value_source *src, struct slam_rng *rng, uint8_t *at)
{
    int64_t ms;

    if (src->lo == 0 && src->hi == 0)
        ms = (int64_t)(slam_clock_read_ns(CLOCK_REALTIME) / 1000000);
    else
        ms = src->lo + (int64_t)slam_rng_below(rng, (uint64_t)(src->hi - src->lo) + 1);
    switch (src->step) {
    case SLAM_TIMESTAMP_MILLISECONDS:
        return put_number(ms, 0, at);
    case SLAM_TIMESTAMP_SECONDS:
        return put_number(ms / 1000 - (ms % 1000 < 0), 0, at);
    default:
        return put_generalized(ms, at);
    }
}

/* What follows the first comma without a backslash; empty: the parent is the root. */
static uint8_t *
put_parent(const struct slam_value_source *src, const struct slam_variable *variable,
           uint8_t *at)
{
    const uint8_t *text = variable->text;
    uint32_t i = 0;

    while (i < variable->len && text[i] != ',')
        i += text[i] == '\\' ? 2 : 1;
    for (i++; i < variable->len && text[i] == ' ';)
        i++;
    if (i >= variable->len)
        return at;
    return put_bytes(text + i,
                     slam_text_cut(text + i, variable->len - i, (uint32_t)src->hi), at);
}

static uint8_t *
put_choice(const struct slam_value_source *src, struct slam_rng *rng, uint8_t *at)
{
    const struct slam_choice *choices = src->prepared.choices;
    uint64_t drawn = slam_rng_below(rng, choices[src->members - 1].end);
    size_t low = 0, high = src->members - 1;

    while (low < high) { /* the first entry whose end is above drawn */
        size_t middle = low + (high - low) / 2;

        if (choices[middle].end > drawn)
            high = middle;
        else
            low = middle + 1;
    }
    return put_bytes(src->data + choices[low].offset, choices[low].len, at);
}

uint8_t *
slam_value_put(const struct slam_value_source *src,
               struct slam_partition_cursor *cursor, const struct slam_draw *draw,
               uint8_t *at)
{
    struct slam_rng *rng = draw->rng;
    const struct slam_variable *variable;

    switch (src->kind) {
    case SLAM_VALUE_UNIFORM:
        return put_number(member(src, slam_rng_below(rng, src->members)), src->width,
                          at);
    case SLAM_VALUE_SEQUENCE:
        return put_number(
            member(src, slam_partition_next(draw->partition, cursor) % src->members),
            src->width, at);
    case SLAM_VALUE_STRING:
        return put_string(src, rng, at);
    case SLAM_VALUE_ZIPF:
        return put_number(member(src, draw_zipf(src, rng)), src->width, at);
    case SLAM_VALUE_GAUSS:
        return put_number(member(src, draw_gauss(src, rng)), src->width, at);
    case SLAM_VALUE_HOT:
        return put_number(member(src, draw_hot(src, rng)), src->width, at);
    case SLAM_VALUE_FILE_RANDOM:
        return put_line(src, slam_rng_below(rng, src->members), at);
    case SLAM_VALUE_FILE_SEQUENCE:
        return put_line(
            src, slam_partition_next(draw->partition, cursor) % src->members, at);
    case SLAM_VALUE_TIMESTAMP:
        return put_timestamp(src, rng, at);
    case SLAM_VALUE_UUID:
        return put_uuid(rng, at);
    case SLAM_VALUE_UNIQUE:
        return slam_text_put_number(
            (uint64_t)src->lo +
                (uint64_t)src->step * slam_partition_next(draw->partition, cursor),
            src->width, at);
    case SLAM_VALUE_VARIABLE:
        variable = &draw->variables[src->lo];
        return slam_text_put((enum slam_text_form)src->width, variable->text,
                             variable->len, (uint32_t)src->hi, at);
    case SLAM_VALUE_PARENT:
        return put_parent(src, &draw->variables[src->lo], at);
    case SLAM_VALUE_MESSAGE_ID:
        return slam_ber_put_integer(at, (uint32_t)draw->message_id_of_previous);
    case SLAM_VALUE_LIST:
        return put_choice(src, rng, at);
    }
    return at;
}

static int
prepare_numbers(struct slam_value_source *src, char *err)
{
    bool descends = src->lo > src->hi && src->kind == SLAM_VALUE_SEQUENCE;
    uint64_t width = descends ? (uint64_t)src->lo - (uint64_t)src->hi
                              : (uint64_t)src->hi - (uint64_t)src->lo;
    size_t lo_len = number_len(src->lo, src->width);
    size_t hi_len = number_len(src->hi, src->width);

    if (src->hi < src->lo && !descends)
        return slam_fail(err, SLAM_EINVAL,
                         "the range %" PRId64 "..%" PRId64 " is empty", src->lo,
                         src->hi);
    if (src->step < 1)
        return slam_fail(err, SLAM_EINVAL, "a step is at least 1, got %" PRId64,
                         src->step);
    if (width / (uint64_t)src->step >= INT64_MAX)
        return slam_fail(err, SLAM_EINVAL,
                         "the range %" PRId64 "..%" PRId64 " has more than 2^63 - 1 "
                         "members",
                         src->lo, src->hi);
    if (src->width > SLAM_VALUE_MAX_LEN - 1)
        return slam_fail(err, SLAM_EINVAL,
                         "a number has at most %u digits, got %" PRIu32,
                         SLAM_VALUE_MAX_LEN - 1, src->width);
    src->members = width / (uint64_t)src->step + 1;
    /* The magnitude is greatest at an end of the range. */
    src->max_len = lo_len > hi_len ? lo_len : hi_len;
    return SLAM_OK;
}

static int
prepare_drawn(struct slam_value_source *src, char *err)
{
    int rc = prepare_numbers(src, err);

    if (rc == SLAM_OK && src->members > DRAWN_MEMBERS_MAX)
        return slam_fail(err, SLAM_EINVAL,
                         "this distribution has at most 2^53 members, got %" PRIu64,
                         src->members);
    return rc;
}

static int
prepare_zipf(struct slam_value_source *src, char *err)
{
    double s = src->a;
    int rc = prepare_drawn(src, err);

    if (rc != SLAM_OK)
        return rc;
    if (!(s > 0 && s <= 64))
        return slam_fail(err, SLAM_EINVAL,
                         "a Zipf exponent is above 0 and at most 64, got %g", s);
    src->prepared.zipf.low = zipf_integral(1.5, s) - 1;
    src->prepared.zipf.high = zipf_integral((double)src->members + 0.5, s);
    src->prepared.zipf.shortcut =
        2 - zipf_inverse(zipf_integral(2.5, s) - zipf_h(2, s), s);
    return SLAM_OK;
}

static int
prepare_hot(struct slam_value_source *src, char *err)
{
    int rc = prepare_drawn(src, err);

    if (rc != SLAM_OK)
        return rc;
    if (!(src->a > 0 && src->a < 1))
        return slam_fail(err, SLAM_EINVAL,
                         "the share of hot members lies between 0 and 1, got %g",
                         src->a);
    if (!(src->b >= 0 && src->b <= 1))
        return slam_fail(err, SLAM_EINVAL,
                         "the fraction of draws lies within 0 and 1, got %g", src->b);
    if (src->members < 2)
        return slam_fail(err, SLAM_EINVAL, "of one member none can be hot alone");
    src->prepared.hot = (uint64_t)nearbyint(src->a * (double)src->members);
    if (src->prepared.hot < 1)
        src->prepared.hot = 1;
    if (src->prepared.hot >= src->members)
        src->prepared.hot = src->members - 1;
    return SLAM_OK;
}

static int
prepare_string(struct slam_value_source *src, char *err)
{
    int64_t longest = src->hi > src->lo ? src->hi : src->lo;

    if (src->lo < 0 || longest < 1 || longest > (int64_t)SLAM_VALUE_MAX_LEN)
        return slam_fail(err, SLAM_EINVAL,
                         "a random string has 1 to %u characters, got %" PRId64,
                         SLAM_VALUE_MAX_LEN, src->lo < 0 ? src->lo : longest);
    if (src->data_len < 1 || src->data_len > CHARSET_MAX)
        return slam_fail(err, SLAM_EINVAL, "a charset has 1 to %u characters, got %zu",
                         CHARSET_MAX, src->data_len);
    src->max_len = (size_t)longest;
    return SLAM_OK;
}

static int
prepare_timestamp(struct slam_value_source *src, char *err)
{
    if (src->lo < MS_MIN || src->hi > MS_MAX || src->lo > src->hi)
        return slam_fail(err, SLAM_EINVAL,
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
    default:
        return slam_fail(err, SLAM_EINVAL, "unknown format %" PRId64 " of times",
                         src->step);
    }
}

static uint32_t
read_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
           (uint32_t)at[3] << 24;
}

static int
prepare_list(struct slam_value_source *src, char *err)
{
    /* An entry has at least 8 bytes; all of them are bounded by LIST_MAX. */
    struct slam_choice *choices = NULL;
    uint64_t weight = 0;
    size_t at = 0, count = 0;

    if (src->data_len > LIST_MAX)
        return slam_fail(err, SLAM_EINVAL, "a list has at most %u bytes, got %zu",
                         LIST_MAX, src->data_len);
    choices = calloc(src->data_len / 8 + 1, sizeof(*choices));
    if (!choices)
        return slam_fail(err, SLAM_ENOMEM, "no memory for a list");
    while (src->data_len - at >= 8) {
        uint32_t len = read_u32(src->data + at + 4);

        weight += read_u32(src->data + at);
        if (len > src->data_len - at - 8 || len > SLAM_VALUE_MAX_LEN)
            break;
        at += 8;
        choices[count++] =
            (struct slam_choice){.end = weight, .offset = (uint32_t)at, .len = len};
        if (len > src->max_len)
            src->max_len = len;
        at += len;
    }
    if (at != src->data_len || weight == 0) {
        free(choices);
        return slam_fail(err, SLAM_EINVAL,
                         weight == 0 ? "a list needs an entry with a weight"
                                     : "entry %zu of a list is cut off or too long",
                         count);
    }
    src->members = count;
    src->prepared.choices = choices;
    return SLAM_OK;
}

static int
prepare_file(struct slam_value_source *src, struct slam_feeds *feeds, char *err)
{
    int rc;

    if (!feeds)
        return slam_fail(err, SLAM_EINVAL, "files of values need a registry of feeds");
    rc =
        slam_feeds_open(feeds, (const char *)src->data, src->data_len, &src->feed, err);
    if (rc == SLAM_OK) {
        src->members = src->feed->count;
        src->max_len = src->feed->longest;
    }
    return rc;
}

static int
prepare_variable(struct slam_value_source *src, char *err)
{
    if (src->lo < 0 || src->lo > UINT16_MAX)
        return slam_fail(err, SLAM_EINVAL,
                         "a variable has a number from 0 to %u, got %" PRId64,
                         UINT16_MAX, src->lo);
    if (src->hi < 0 || src->hi > (int64_t)SLAM_VARIABLE_MAX)
        return slam_fail(err, SLAM_EINVAL,
                         "a variable has at most %u bytes, got %" PRId64,
                         SLAM_VARIABLE_MAX, src->hi);
    if (src->width > SLAM_FORM_UNDERSCORES)
        return slam_fail(err, SLAM_EINVAL, "unknown form %" PRIu32 " of a variable",
                         src->width);
    src->max_len = src->hi > 0 ? (size_t)src->hi : SLAM_VARIABLE_MAX;
    if (src->kind == SLAM_VALUE_VARIABLE)
        src->max_len = slam_text_put_max((enum slam_text_form)src->width,
                                         SLAM_VARIABLE_MAX, (uint32_t)src->hi);
    return SLAM_OK;
}

static int
prepare_kind(struct slam_value_source *src, struct slam_feeds *feeds, char *err)
{
    switch (src->kind) {
    case SLAM_VALUE_UNIFORM:
    case SLAM_VALUE_SEQUENCE:
        return prepare_numbers(src, err);
    case SLAM_VALUE_STRING:
        return prepare_string(src, err);
    case SLAM_VALUE_ZIPF:
        return prepare_zipf(src, err);
    case SLAM_VALUE_GAUSS:
        return prepare_drawn(src, err);
    case SLAM_VALUE_HOT:
        return prepare_hot(src, err);
    case SLAM_VALUE_FILE_RANDOM:
    case SLAM_VALUE_FILE_SEQUENCE:
        return prepare_file(src, feeds, err);
    case SLAM_VALUE_TIMESTAMP:
        return prepare_timestamp(src, err);
    case SLAM_VALUE_UUID:
        src->max_len = UUID_LEN;
        return SLAM_OK;
    case SLAM_VALUE_UNIQUE:
        if (src->lo < 0 || src->step < 1 || src->width > SLAM_VALUE_MAX_LEN)
            return slam_fail(err, SLAM_EINVAL,
                             "unique numbers start at 0 or above in steps of at "
                             "least 1, got %" PRId64 " and %" PRId64,
                             src->lo, src->step);
        src->max_len =
            src->width > SLAM_TEXT_DIGITS_MAX ? src->width : SLAM_TEXT_DIGITS_MAX;
        return SLAM_OK;
    case SLAM_VALUE_VARIABLE:
    case SLAM_VALUE_PARENT:
        return prepare_variable(src, err);
    case SLAM_VALUE_MESSAGE_ID:
        src->max_len = MESSAGE_ID_LEN;
        return SLAM_OK;
    case SLAM_VALUE_LIST:
        return prepare_list(src, err);
    }
    return slam_fail(err, SLAM_EINVAL, "unknown kind of value source %d",
                     (int)src->kind);
}

int
slam_value_source_prepare(struct slam_value_source *src, struct slam_feeds *feeds,
                          char *err)
{
    uint8_t *data = NULL;
    int rc;

    src->feed = NULL;
    src->members = 0;
    src->max_len = 0;
    memset(&src->prepared, 0, sizeof(src->prepared));
    rc = prepare_kind(src, feeds, err);
    if (rc != SLAM_OK)
        return rc;
    if (src->data_len > 0) {
        data = malloc(src->data_len);
        if (!data) {
            snprintf(err, SLAM_ERR_LEN, "no memory for a value source");
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
