/* SPDX-License-Identifier: Apache-2.0 */
/* Seeded random numbers: xoshiro256** (Blackman and Vigna), seeded through splitmix64.
 * Each generator belongs to one thread. */
#ifndef SLAM_RNG_H
#define SLAM_RNG_H

#include <stddef.h>
#include <stdint.h>

struct slam_rng {
    uint64_t s[4];
};

/* Equal (seed, sequence) give equal numbers; different ones give unrelated numbers. */
void slam_rng_seed(struct slam_rng *rng, uint64_t seed, uint64_t sequence);

uint64_t slam_rng_next(struct slam_rng *rng);

/* Uniform in [0, bound), without bias (Lemire's rejection); bound 0 means 2^64. */
uint64_t slam_rng_below(struct slam_rng *rng, uint64_t bound);

/* Fills out with numbers uniform in [0, bound), 1 <= bound <= 256, several of a
 * draw. */
void slam_rng_bytes_below(struct slam_rng *rng, uint32_t bound, uint8_t *out,
                          size_t count);

/* Uniform in [0, 1): the multiples of 2^-53. */
double slam_rng_unit(struct slam_rng *rng);

/* Normal, mean 0 and standard deviation 1 (Marsaglia's polar method). */
double slam_rng_normal(struct slam_rng *rng);

/* Exponential with mean 1: -ln(1 - u), u uniform in [0, 1) with 53 bits. */
double slam_rng_exponential(struct slam_rng *rng);

/* The numbers below n in an order that looks random, each once. */
struct slam_shuffle {
    uint64_t n;
    uint64_t key;
    uint32_t low_bits; /* of a number; the rest are its high bits */
    uint32_t high_bits;
};

/* A shuffle of n >= 1 numbers, chosen by rng. */
struct slam_shuffle slam_shuffle_draw(struct slam_rng *rng, uint64_t n);
uint64_t slam_shuffle_member(const struct slam_shuffle *shuffle, uint64_t i);

#endif
