/* SPDX-License-Identifier: Apache-2.0 */
#include "load/pacer.h"

#include "core/slam_err.h"

#include <float.h>
#include <math.h>

#define TWO_PI 6.283185307179586476925286766559

static double
segment_arrivals(const struct slam_rate_segment *s, double t)
{
    if (s->kind == SLAM_RATE_SINE) {
        /* 1 - cos(2 y) = 2 sin(y)^2, without cancellation near the zeros */
        double sine = sin(TWO_PI / 2 * fmod(t / s->c, 1.0));

        return s->a * t + s->b * s->c * (2 * sine * sine) / TWO_PI;
    }
    return s->a * t + (s->b - s->a) / (double)s->duration_ns * t * (t / 2);
}

static const char *
segment_fault(const struct slam_rate_segment *s)
{
    if (s->kind != SLAM_RATE_LINEAR && s->kind != SLAM_RATE_SINE)
        return "unknown kind";
    if (s->duration_ns == 0 || s->duration_ns > SLAM_RATE_FOR_EVER)
        return "its duration must be 1 to 2^62 ns";
    if (!(s->a >= 0 && s->a <= 1))
        return "its rate must be 0 to 1 per ns";
    if (s->kind == SLAM_RATE_LINEAR && !(s->b >= 0 && s->b <= 1))
        return "its last rate must be 0 to 1 per ns";
    if (s->kind == SLAM_RATE_SINE && !(fabs(s->b) <= s->a))
        return "its amplitude must not be above its mean";
    if (s->kind == SLAM_RATE_SINE && !(s->c >= 1 && s->c <= 0x1p62))
        return "its period must be 1 to 2^62 ns";
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

    for (size_t i = 0; i < count; i++) {
        const struct slam_rate_segment *s = &segments[i];

        peak = fmax(peak,
                    s->kind == SLAM_RATE_SINE ? s->a + fabs(s->b) : fmax(s->a, s->b));
    }
    return peak;
}

double
slam_rate_profile_arrivals(const struct slam_rate_segment *segments, size_t count,
                           uint64_t t_ns)
{
    for (size_t i = 0; i < count; i++) {
        const struct slam_rate_segment *s = &segments[i];

        if (t_ns - s->start_ns < s->duration_ns)
            return s->first + segment_arrivals(s, (double)(t_ns - s->start_ns));
    }
    return segments[count - 1].end;
}

/* t with a t + g t^2 / 2 = n, g = (b - a) / T: the root of the quadratic in the form
 * that neither cancels nor divides by zero when a or g is small. n > 0 implies a > 0 or
 * g > 0. */
static double
linear_inverse(const struct slam_rate_segment *s, double n)
{
    double g = (s->b - s->a) / (double)s->duration_ns;
    double discriminant = s->a * s->a + 2 * g * n;

    if (n <= 0)
        return 0;
    return 2 * n / (s->a + sqrt(discriminant > 0 ? discriminant : 0));
}

/* Within one period N is increasing: Newton's steps, and a bisection of the bracket
 * where a step would leave it (the rate is nearly zero there). */
static double
sine_inverse(const struct slam_rate_segment *s, double n)
{
    double periods = floor(n / (s->a * s->c));
    double rest = n - periods * s->a * s->c;
    double low = 0, high = s->c;
    double t = rest / s->a;

    for (int i = 0; i < 64; i++) {
        double excess, rate, next;

        if (!(t > low && t < high))
            t = low + (high - low) / 2;
        excess = segment_arrivals(s, t) - rest;
        if (excess > 0)
            high = t;
        else
            low = t;
        rate = s->a + s->b * sin(TWO_PI * t / s->c);
        next = rate > 0 ? t - excess / rate : low;
        if (fabs(next - t) < 0.01 || high - low < 0.01) {
            t = next;
            break;
        }
        t = next;
    }
    return periods * s->c + fmin(fmax(t, low), high);
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
    t = s->kind == SLAM_RATE_SINE ? sine_inverse(s, x) : linear_inverse(s, x);
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
