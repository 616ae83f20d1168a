/* SPDX-License-Identifier: Apache-2.0 */
#include "template/values.h"

#include "core/clock.h"
#include "core/slam_err.h"
#include "template/text.h"
#include "template/values_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

static uint64_t
magnitude(int64_t value)
{
    return value < 0 ? UINT64_C(0) - (uint64_t)value : (uint64_t)value;
}

static size_t
emit_digits(uint64_t n, uint32_t width, char *out)
{
    return (size_t)(slam_text_put_number(n, width, (uint8_t *)out) - (uint8_t *)out);
}

/* The sign is not a digit. */
static size_t
emit_number(int64_t value, uint32_t width, char *out)
{
    if (value >= 0)
        return emit_digits((uint64_t)value, width, out);
    *out = '-';
    return 1 + emit_digits(magnitude(value), width, out + 1);
}

size_t
slam_value_number_len(int64_t value, uint32_t width)
{
    uint8_t digits[SLAM_TEXT_DIGITS_MAX];
    const size_t count =
        (size_t)(slam_text_put_number(magnitude(value), 0, digits) - digits);

    return (value < 0) + (width > count ? width : count);
}

void
slam_value_state_init(const struct slam_value_source *src,
                      struct slam_value_state *state)
{
    (void)src;
    memset(state, 0, sizeof(*state));
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
double
slam_zipf_h(double x, double s)
{
    return exp(-s * log(x));
}

double
slam_zipf_integral(double x, double s)
{
    double log_x = log(x);

    return expm1_over((1 - s) * log_x) * log_x;
}

double
slam_zipf_inverse(double y, double s)
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
        double x = slam_zipf_inverse(u, s);
        double k = floor(x + 0.5);

        if (!(k > 1))
            k = 1;
        else if (k > n)
            k = n;
        if (k - x <= src->prepared.zipf.shortcut ||
            u >= slam_zipf_integral(k + 0.5, s) - slam_zipf_h(k, s))
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

static size_t
emit_line(const struct slam_value_source *src, uint64_t line, char *out)
{
    size_t len;
    const uint8_t *text = slam_feed_line(src->feed, line, &len);

    memcpy(out, text, len);
    return len;
}

static size_t
emit_string(const struct slam_value_source *src, struct slam_rng *rng, char *out)
{
    size_t len = (size_t)src->lo;
    uint8_t *characters = (uint8_t *)out;

    if (src->hi > src->lo)
        len += (size_t)slam_rng_below(rng, (uint64_t)(src->hi - src->lo) + 1);
    slam_rng_bytes_below(rng, (uint32_t)src->data_len, characters, len);
    for (size_t i = 0; i < len; i++)
        characters[i] = src->data[characters[i]];
    return len;
}

static size_t
emit_uuid(struct slam_rng *rng, char *out)
{
    static const char hex[] = "0123456789abcdef";
    uint64_t bits[2] = {slam_rng_next(rng), slam_rng_next(rng)};
    size_t at = 0;

    /* RFC 9562 5.4: version 4 in bits 48 to 51, variant 10 in bits 64 and 65 */
    bits[0] = (bits[0] & ~UINT64_C(0xf000)) | UINT64_C(0x4000);
    bits[1] = (bits[1] & ~(UINT64_C(3) << 62)) | UINT64_C(2) << 62;
    for (unsigned int i = 0; i < 32; i++) {
        if (i == 8 || i == 12 || i == 16 || i == 20)
            out[at++] = '-';
        out[at++] = hex[bits[i / 16] >> (60 - i % 16 * 4) & 0xf];
    }
    return at;
}

/* The civil date of a day counted from 1970-01-01, in the proleptic Gregorian calendar.
 * Years are taken to begin in March, so that the leap day is the last; an era is 400
 * years, 146097 days. */
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

static size_t
emit_date(int64_t ms, const uint8_t *format, size_t format_len, char *out)
{
    const int64_t ms_per_day = 86400000;
    int64_t day = ms / ms_per_day - (ms % ms_per_day < 0);
    uint64_t of_day = (uint64_t)(ms - day * ms_per_day);
    uint64_t year, month, day_of_month;
    char *at = out;

    civil_date(day, &year, &month, &day_of_month);
    for (size_t i = 0; i < format_len; i++) {
        if (format[i] != '%' || i + 1 == format_len) {
            *at++ = (char)format[i];
            continue;
        }
        switch (format[++i]) {
        case 'Y':
            at += emit_digits(year, 4, at);
            break;
        case 'm':
            at += emit_digits(month, 2, at);
            break;
        case 'd':
            at += emit_digits(day_of_month, 2, at);
            break;
        case 'H':
            at += emit_digits(of_day / 3600000, 2, at);
            break;
        case 'M':
            at += emit_digits(of_day / 60000 % 60, 2, at);
            break;
        case 'S':
            at += emit_digits(of_day / 1000 % 60, 2, at);
            break;
        case 'L':
            at += emit_digits(of_day % 1000, 3, at);
            break;
        default:
            *at++ = (char)format[i];
            break;
        }
    }
    return (size_t)(at - out);
}

static size_t
emit_timestamp(const struct slam_value_source *src, struct slam_rng *rng, char *out)
{
    static const uint8_t generalized[] = "%Y%m%d%H%M%S.%LZ";
    int64_t ms;

    if (src->lo == 0 && src->hi == 0)
        ms = (int64_t)(slam_clock_read_ns(CLOCK_REALTIME) / 1000000);
    else
        ms = src->lo + (int64_t)slam_rng_below(rng, (uint64_t)(src->hi - src->lo) + 1);
    switch (src->step) {
    case SLAM_TIMESTAMP_MILLISECONDS:
        return emit_number(ms, 0, out);
    case SLAM_TIMESTAMP_SECONDS:
        return emit_number(ms / 1000 - (ms % 1000 < 0), 0, out);
    case SLAM_TIMESTAMP_TEXT:
        return emit_date(ms, src->data, src->data_len, out);
    default:
        return emit_date(ms, generalized, sizeof(generalized) - 1, out);
    }
}

/* What follows the first comma that no backslash escapes; nothing, where there is none:
 * the parent of a name of one RDN is the root. */
static size_t
emit_parent(const struct slam_value_source *src, const struct slam_variable *variable,
            char *out)
{
    const uint8_t *text = variable->text;
    uint32_t at = 0, len;

    while (at < variable->len && text[at] != ',')
        at += text[at] == '\\' ? 2 : 1;
    for (at++; at < variable->len && text[at] == ' ';)
        at++;
    if (at >= variable->len)
        return 0;
    len = slam_text_cut(text + at, variable->len - at, (uint32_t)src->hi);
    memcpy(out, text + at, len);
    return len;
}

static size_t
emit_variable(const struct slam_value_source *src, const struct slam_variable *variable,
              char *out)
{
    uint8_t *at = (uint8_t *)out;

    return (size_t)(slam_text_put((enum slam_text_form)src->width, variable->text,
                                  variable->len, (uint32_t)src->hi, at) -
                    at);
}

/* The fewest octets of a non-negative INTEGER (X.690 8.3). */
static size_t
emit_message_id(int32_t message_id, char *out)
{
    uint32_t id = (uint32_t)message_id;
    size_t len = 1;

    while (len < 4 && id >> (8 * len - 1) != 0)
        len++;
    for (size_t i = 0; i < len; i++)
        out[i] = (char)(uint8_t)(id >> (8 * (len - 1 - i)));
    return len;
}

static size_t
emit_choice(const struct slam_value_source *src, struct slam_rng *rng, char *out)
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
    memcpy(out, src->data + choices[low].offset, choices[low].len);
    return choices[low].len;
}

size_t
slam_value_emit(const struct slam_value_source *src, struct slam_value_state *state,
                const struct slam_draw *draw, char *out)
{
    struct slam_rng *rng = draw->rng;

    switch (src->kind) {
    case SLAM_VALUE_UNIFORM:
        return emit_number(member(src, slam_rng_below(rng, src->members)), src->width,
                           out);
    case SLAM_VALUE_SEQUENCE:
        return emit_number(
            member(src, slam_share_next(draw->share, &state->cursor) % src->members),
            src->width, out);
    case SLAM_VALUE_STRING:
        return emit_string(src, rng, out);
    case SLAM_VALUE_ZIPF:
        return emit_number(member(src, draw_zipf(src, rng)), src->width, out);
    case SLAM_VALUE_GAUSS:
        return emit_number(member(src, draw_gauss(src, rng)), src->width, out);
    case SLAM_VALUE_HOT:
        return emit_number(member(src, draw_hot(src, rng)), src->width, out);
    case SLAM_VALUE_FILE_RANDOM:
        return emit_line(src, slam_rng_below(rng, src->members), out);
    case SLAM_VALUE_FILE_SEQUENCE:
        return emit_line(
            src, slam_share_next(draw->share, &state->cursor) % src->members, out);
    case SLAM_VALUE_TIMESTAMP:
        return emit_timestamp(src, rng, out);
    case SLAM_VALUE_UUID:
        return emit_uuid(rng, out);
    case SLAM_VALUE_UNIQUE:
        return emit_digits((uint64_t)src->lo +
                               (uint64_t)src->step *
                                   slam_share_next(draw->share, &state->cursor),
                           src->width, out);
    case SLAM_VALUE_VARIABLE:
        return emit_variable(src, &draw->variables[src->lo], out);
    case SLAM_VALUE_PARENT:
        return emit_parent(src, &draw->variables[src->lo], out);
    case SLAM_VALUE_MESSAGE_ID:
        return emit_message_id(draw->message_id_of_previous, out);
    case SLAM_VALUE_LIST:
        return emit_choice(src, rng, out);
    case SLAM_VALUE_REF:
        break;
    }
    return 0;
}
