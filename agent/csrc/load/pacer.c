/* SPDX-License-Identifier: Apache-2.0 */
#include "load/pacer.h"

#include "core/slam_err.h"

#include <float.h>
#include <math.h>

static double
segment_arrivals(const struct slam_rate_segment *s, double t)
{
    return s->a * t + (s->b - s->a) / (double)s->duration_ns * t * (t / 2);
}

static const char *
segment_fault(const struct slam_rate_segment *s)
{
    if (s->duration_ns == 0 || s->duration_ns > SLAM_RATE_FOR_EVER)
        return "its duration must be 1 to 2^62 ns";
    if (!(s->a >= 0 && s->a <= 1))
        return "its rate must be 0 to 1 per ns";
    if (!(s->b >= 0 && s->b <= 1))
        return "its last rate must be 0 to 1 per ns";
    return NULL;
}

int
slam_rate_profile_prepare(struct slam_rate_segment *segments, size_t count, char *err)
{
    uint64_t start_ns = 0;
    double arrivals = 0;

    if (count == 0)
        return slam_fail(err, SLAM_EINVAL, "a rate profile has at least one segment");
    for (size_t i = 0; i < count; i++) {
        struct slam_rate_segment *s = &segments[i];
        const char *fault = segment_fault(s);
        double whole;

        if (!fault && start_ns > SLAM_RATE_FOR_EVER)
            fault = "it begins after 2^62 ns";
        if (fault)
            return slam_fail(err, SLAM_EINVAL, "bad rate profile, segment %zu: %s", i,
                             fault);
        s->start_ns = start_ns;
        s->first = arrivals;
        arrivals += segment_arrivals(s, (double)s->duration_ns);
        /* A rate that is no binary fraction must not lose or win the last arrival. */
        whole = nearbyint(arrivals);
        if (fabs(arrivals - whole) <= 8 * DBL_EPSILON * (whole + 1))
            arrivals = whole;
        s->end = arrivals;
        start_ns += s->duration_ns;
    }
    return SLAM_OK;
}

double
slam_rate_profile_peak(const struct slam_rate_segment *segments, size_t count)
{
    double peak = 0;

    for (size_t i = 0; i < count; i++)
        peak = fmax(peak, fmax(segments[i].a, segments[i].b));
    return peak;
}

/* t with a t + g t^2 / 2 = n, g = (b - a) / T: the root of the quadratic in the form
 * that neither cancels nor divides by zero when a or g is small. n > 0 implies a > 0 or
 * g > 0. */
static double
inverse(const struct slam_rate_segment *s, double n)
{
    double g = (s->b - s->a) / (double)s->duration_ns;
    double discriminant = s->a * s->a + 2 * g * n;

    if (n <= 0)
        return 0;
    return 2 * n / (s->a + sqrt(discriminant > 0 ? discriminant : 0));
}

/* N^-1(x), or SLAM_PACER_NONE. x does not decrease from call to call. */
static uint64_t
due_ns(struct slam_pacer *p, double x)
{
    const struct slam_rate_segment *s;
    double t;

    while (x >= p->segments[p->segment].end) {
        if (p->segment + 1 == p->segment_count) {
            p->left = 0;
            return SLAM_PACER_NONE;
        }
        p->segment++;
    }
    s = &p->segments[p->segment];
    x -= s->first;
    t = inverse(s, x);
    if (t >= (double)s->duration_ns)
        return s->start_ns + s->duration_ns;
    return s->start_ns + (uint64_t)(t + 0.5);
}

/* The next position of a Poisson partition lies Exp(1) further in its own arrivals. */
static double
poisson_step(const struct slam_pacer *p, struct slam_rng *rng)
{
    return (double)p->partition.total / (double)p->partition.count *
           slam_rng_exponential(rng);
}

int
slam_pacer_init(struct slam_pacer *pacer, const struct slam_rate_segment *segments,
                size_t segment_count, enum slam_arrivals arrivals,
                const struct slam_partition *partition, uint64_t limit,
                struct slam_rng *rng)
{
    if (segment_count == 0 || partition->count == 0)
        return SLAM_EINVAL;
    *pacer = (struct slam_pacer){
        .segments = segments,
        .segment_count = segment_count,
        .arrivals = arrivals,
        .partition = *partition,
        .left = limit == 0 ? UINT64_MAX : slam_partition_count(partition, limit)};
    if (arrivals == SLAM_ARRIVALS_POISSON)
        pacer->position = poisson_step(pacer, rng);
    return SLAM_OK;
}

uint64_t
slam_pacer_next(struct slam_pacer *p, struct slam_rng *rng)
{
    double x;

    if (p->left == 0)
        return SLAM_PACER_NONE;
    p->left--;
    if (p->arrivals == SLAM_ARRIVALS_POISSON) {
        x = p->position;
        p->position += poisson_step(p, rng);
    } else {
        x = (double)slam_partition_next(&p->partition, &p->cursor);
        if (p->arrivals == SLAM_ARRIVALS_UNIFORM)
            x += slam_rng_unit(rng);
    }
    return due_ns(p, x);
}
