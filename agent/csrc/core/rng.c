/* SPDX-License-Identifier: Apache-2.0 */
#include "core/rng.h"

#include <math.h>

#define SHUFFLE_ROUNDS 4u

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

void
slam_rng_bytes_below(struct slam_rng *rng, uint32_t bound, uint8_t *out, size_t count)
{
    enum { BATCH = 8 }; /* 256^8 = 2^64: the most that one draw can hold */

    while (count > 0) {
        size_t batch = count < BATCH ? count : BATCH;
        uint64_t power = 1; /* bound^batch modulo 2^64; 0 is 2^64 */
        uint64_t rest;

        for (size_t i = 0; i < batch; i++)
            power *= bound;
        /* The high half of x * bound is a digit, the low half is as random as before
         * and gives the next one (N. Brackett-Rozinsky and D. Lemire, Batched ranged
         * random integer generation, 2024): slam_rng_below of bound^batch, written in
         * digits, with the same refusals. */
        do {
            rest = slam_rng_next(rng);
            for (size_t i = 0; i < batch; i++) {
                slam_u128 product = (slam_u128)rest * bound;

                out[i] = (uint8_t)(product >> 64);
                rest = (uint64_t)product;
            }
        } while (power != 0 && rest < power && rest < (UINT64_C(0) - power) % power);
        out += batch;
        count -= batch;
    }
}

double
slam_rng_unit(struct slam_rng *rng)
{
    return (double)(slam_rng_next(rng) >> 11) * 0x1.0p-53;
}

double
slam_rng_normal(struct slam_rng *rng)
{
    double u, v, s;

    /* (u, v) uniform in the unit disc: u sqrt(-2 ln(s) / s) is normal (G. Marsaglia and
     * T. A. Bray, A convenient method for generating normal variables, 1964). The
     * second normal, of v, is not kept: a draw has no memory. */
    do {
        u = 2 * slam_rng_unit(rng) - 1;
        v = 2 * slam_rng_unit(rng) - 1;
        s = u * u + v * v;
    } while (s >= 1 || s == 0);
    return u * sqrt(-2 * log(s) / s);
}

double
slam_rng_exponential(struct slam_rng *rng)
{
    return -log1p(-slam_rng_unit(rng));
}

struct slam_shuffle
slam_shuffle_draw(struct slam_rng *rng, uint64_t n)
{
    uint32_t bits = 2;

    while (bits < 64 && n >> bits != 0)
        bits++;
    return (struct slam_shuffle){.n = n,
                                 .key = slam_rng_next(rng),
                                 .low_bits = bits / 2,
                                 .high_bits = bits - bits / 2};
}

/* A Feistel network (M. Luby and C. Rackoff, How to construct pseudorandom permutations
 * from pseudorandom functions, 1988): each round changes one half by a function of the
 * other, which permutes the numbers of so many bits. What lies beyond n is permuted
 * once more (J. Black and P. Rogaway, Ciphers with arbitrary finite domains, 2002);
 * fewer than four turns on average. */
uint64_t
slam_shuffle_member(const struct slam_shuffle *shuffle, uint64_t i)
{
    const uint64_t low_mask = (UINT64_C(1) << shuffle->low_bits) - 1;
    const uint64_t high_mask = (UINT64_C(1) << shuffle->high_bits) - 1;
    uint64_t x = i % shuffle->n;

    do {
        uint64_t low = x & low_mask, high = x >> shuffle->low_bits;
        uint64_t key = shuffle->key;

        for (uint32_t round = 0; round < SHUFFLE_ROUNDS; round++) {
            uint64_t z = (round % 2 == 0 ? low : high) ^ key;

            z = (z ^ (z >> 32)) * UINT64_C(0xd6e8feb86659fd93);
            z = (z ^ (z >> 32)) * UINT64_C(0xd6e8feb86659fd93);
            z ^= z >> 32;
            if (round % 2 == 0)
                high ^= z & high_mask;
            else
                low ^= z & low_mask;
            key += UINT64_C(0x9e3779b97f4a7c15);
        }
        x = high << shuffle->low_bits | low;
    } while (x >= shuffle->n);
    return x;
}
