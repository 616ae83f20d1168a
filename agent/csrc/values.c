/* SPDX-License-Identifier: Apache-2.0 */
#include "values.h"

#include "slam_err.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DIGITS_MAX 20u /* of a uint64_t */

int
slam_value_source_check(const struct slam_value_source *src, char *err, size_t err_len)
{
    if (src->kind == SLAM_VALUE_STRING) {
        if (src->lo < 1 || src->lo > (int64_t)SLAM_VALUE_MAX_LEN) {
            snprintf(err, err_len,
                     "a random string has 1 to %u characters, got %" PRId64,
                     SLAM_VALUE_MAX_LEN, src->lo);
            return SLAM_EINVAL;
        }
        if (src->charset_len < 1 || src->charset_len > sizeof(src->charset)) {
            snprintf(err, err_len, "a charset has 1 to %zu characters, got %" PRIu32,
                     sizeof(src->charset), src->charset_len);
            return SLAM_EINVAL;
        }
        return SLAM_OK;
    }
    if (src->kind != SLAM_VALUE_UNIFORM && src->kind != SLAM_VALUE_SEQUENCE) {
        snprintf(err, err_len, "unknown kind of value source %d", (int)src->kind);
        return SLAM_EINVAL;
    }
    if (src->hi < src->lo) {
        snprintf(err, err_len, "the range %" PRId64 "..%" PRId64 " is empty", src->lo,
                 src->hi);
        return SLAM_EINVAL;
    }
    if (src->step < 1) {
        snprintf(err, err_len, "a step is at least 1, got %" PRId64, src->step);
        return SLAM_EINVAL;
    }
    /* Keeps `next + stride` of a sequence and `members` itself within 64 bits. */
    if (((uint64_t)src->hi - (uint64_t)src->lo) / (uint64_t)src->step >= INT64_MAX) {
        snprintf(err, err_len,
                 "the range %" PRId64 "..%" PRId64 " has more than 2^63 - 1 members",
                 src->lo, src->hi);
        return SLAM_EINVAL;
    }
    if (src->width > SLAM_VALUE_MAX_LEN - 1) {
        snprintf(err, err_len, "a number has at most %u digits, got %" PRIu32,
                 SLAM_VALUE_MAX_LEN - 1, src->width);
        return SLAM_EINVAL;
    }
    return SLAM_OK;
}

uint64_t
slam_value_members(const struct slam_value_source *src)
{
    return ((uint64_t)src->hi - (uint64_t)src->lo) / (uint64_t)src->step + 1;
}

static uint64_t
magnitude(int64_t value)
{
    return value < 0 ? UINT64_C(0) - (uint64_t)value : (uint64_t)value;
}

/* Writes the decimal digits of n to the end of digits; returns how many. */
static size_t
format_digits(uint64_t n, char digits[DIGITS_MAX])
{
    size_t at = DIGITS_MAX;

    do {
        digits[--at] = (char)('0' + n % 10);
        n /= 10;
    } while (n != 0);
    return DIGITS_MAX - at;
}

/* Writes value with at least `width` digits; the sign is not a digit. */
static size_t
emit_number(int64_t value, uint32_t width, char *out)
{
    char digits[DIGITS_MAX];
    size_t count = format_digits(magnitude(value), digits);
    char *at = out;

    if (value < 0)
        *at++ = '-';
    if (width > count) {
        memset(at, '0', width - count);
        at += width - count;
    }
    memcpy(at, digits + DIGITS_MAX - count, count);
    return (size_t)(at - out) + count;
}

static size_t
number_len(int64_t value, uint32_t width)
{
    char digits[DIGITS_MAX];
    size_t count = format_digits(magnitude(value), digits);

    return (value < 0) + (width > count ? width : count);
}

size_t
slam_value_max_len(const struct slam_value_source *src)
{
    if (src->kind == SLAM_VALUE_STRING)
        return (size_t)src->lo;
    /* The magnitude is greatest at an end of the range, and only lo may add a sign. */
    size_t lo_len = number_len(src->lo, src->width);
    size_t hi_len = number_len(src->hi, src->width);
    return lo_len > hi_len ? lo_len : hi_len;
}

void
slam_value_state_init(const struct slam_value_source *src,
                      struct slam_value_state *state, uint32_t participant,
                      uint32_t participants)
{
    memset(state, 0, sizeof(*state));
    if (src->kind == SLAM_VALUE_SEQUENCE) {
        state->first = participant % slam_value_members(src);
        state->next = state->first;
        state->stride = participants;
    }
}

static int64_t
member(const struct slam_value_source *src, uint64_t index)
{
    /* In unsigned arithmetic: the range may be wider than INT64_MAX. */
    return (int64_t)((uint64_t)src->lo + (uint64_t)src->step * index);
}

static int64_t
next_in_sequence(const struct slam_value_source *src, struct slam_value_state *state)
{
    int64_t value = member(src, state->next);

    state->next += state->stride;
    if (state->next >= slam_value_members(src))
        state->next = state->first;
    return value;
}

size_t
slam_value_emit(const struct slam_value_source *src, struct slam_value_state *state,
                struct slam_rng *rng, char *out)
{
    switch (src->kind) {
    case SLAM_VALUE_UNIFORM:
        return emit_number(member(src, slam_rng_below(rng, slam_value_members(src))),
                           src->width, out);
    case SLAM_VALUE_SEQUENCE:
        return emit_number(next_in_sequence(src, state), src->width, out);
    case SLAM_VALUE_STRING:
        for (int64_t i = 0; i < src->lo; i++)
            out[i] = (char)src->charset[slam_rng_below(rng, src->charset_len)];
        return (size_t)src->lo;
    }
    return 0;
}
