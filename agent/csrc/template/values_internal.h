/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by values.c (draws) and value_source.c (checks and preparation) alone. */
#ifndef SLAM_VALUES_INTERNAL_H
#define SLAM_VALUES_INTERNAL_H

#include "template/values.h"

/* Length of a number's text. */
size_t slam_value_number_len(int64_t value, uint32_t width);

/* The density of a Zipf distribution of exponent s over the reals, its integral, and
 * the integral's inverse. */
double slam_zipf_h(double x, double s);
double slam_zipf_integral(double x, double s);
double slam_zipf_inverse(double y, double s);

#endif
