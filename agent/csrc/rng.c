/* SPDX-License-Identifier: Apache-2.0 */
#include "rng.h"

#include <math.h>

__extension__ typedef unsigned __int128 slam_u128;

#define SPLITMIX_GAMMA UINT64_C(0x9e3779b97f4a7c15)

/* The finaliser of splitmix64: a bijection of the 64-bit numbers. */
static uint64_t
mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t
rotate_left(uint64_t x, unsigned int count)
{
    return (x << count) | (x >> (64u - count));
}

void
slam_rng_seed(struct slam_rng *rng, uint64_t seed, uint64_t sequence)
{
    /* Mixed twice, so that neighbouring (seed, sequence) start far apart on the
     * splitmix64 orbit. Its outputs are distinct: the state is never all zero. */
    uint64_t x = mix(mix(seed + SPLITMIX_GAMMA) ^ sequence);

    for (int i = 0; i < 4; i++) {
        x += SPLITMIX_GAMMA;
        rng->s[i] = mix(x);
    }
}

uint64_t
slam_rng_next(struct slam_rng *rng)
{
    uint64_t *s = rng->s;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t
slam_rng_below(struct slam_rng *rng, uint64_t bound)
{
    /* x * bound / 2^64 is uniform once the 2^64 mod bound lowest remainders of the
     * product are refused (D. Lemire, Fast random integer generation in an interval,
     * 2019). The modulo is computed only where a refusal is possible at all. */
    uint64_t x = slam_rng_next(rng);

    if (bound == 0)
        return x;
    slam_u128 product = (slam_u128)x * bound;
    if ((uint64_t)product < bound) {
        uint64_t refused = (UINT64_C(0) - bound) % bound;
        while ((uint64_t)product < refused)
            product = (slam_u128)slam_rng_next(rng) * bound;
    }
    return (uint64_t)(product >> 64);
}

double
slam_rng_exponential(struct slam_rng *rng)
{
    double u = (double)(slam_rng_next(rng) >> 11) * 0x1.0p-53;

    return -log1p(-u);
}
