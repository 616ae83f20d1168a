/* SPDX-License-Identifier: Apache-2.0 */
#include "core/hiccup.h"

#include "core/clock.h"
#include "core/slam_err.h"
#include "core/thread.h"

#include <pthread.h>
#include <stdlib.h>

struct slam_hiccup_meter {
    pthread_t thread;
    bool want_realtime;
    atomic_bool stop;
    struct slam_hiccup_record record;
};

void
slam_hiccup_note(struct slam_hiccup_record *record, uint64_t late_ns)
{
    uint64_t max_ns = atomic_load(&record->max_ns);

    /* before the maximum, which is taken first: so a maximum comes with its stall */
    if (late_ns >= SLAM_STALL_MIN_NS)
        atomic_fetch_add(&record->stalled_ns, late_ns);
    /* it changes meanwhile only when it is taken */
    while (late_ns > max_ns &&
           !atomic_compare_exchange_weak(&record->max_ns, &max_ns, late_ns))
        ;
}

struct slam_hiccups
slam_hiccup_take(struct slam_hiccup_record *record)
{
    struct slam_hiccups taken;

    taken.max_ns = atomic_exchange(&record->max_ns, 0);
    taken.stalled_ns = atomic_exchange(&record->stalled_ns, 0);
    return taken;
}

static void *
run(void *argument)
{
    struct slam_hiccup_meter *meter = argument;
    struct slam_thread thread;
    uint64_t now_ns;

    slam_thread_open(&thread, meter->want_realtime);
    now_ns = slam_clock_mono_ns();
    while (!atomic_load(&meter->stop)) {
        uint64_t due_ns = now_ns + SLAM_HICCUP_SLEEP_NS;
        struct timespec due = slam_clock_timespec(due_ns);

        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) != 0)
            ;
        now_ns = slam_clock_mono_ns();
        slam_hiccup_note(&meter->record, slam_since_ns(now_ns, due_ns));
    }
    slam_thread_close(&thread);
    return NULL;
}

int
slam_hiccup_meter_start(bool want_realtime, struct slam_hiccup_meter **out, char *err)
{
    struct slam_hiccup_meter *meter = calloc(1, sizeof(*meter));

    if (!meter)
        return slam_fail(err, SLAM_ENOMEM, "no memory for the hiccup meter");
    meter->want_realtime = want_realtime;
    atomic_init(&meter->stop, false);
    atomic_init(&meter->record.max_ns, 0);
    atomic_init(&meter->record.stalled_ns, 0);
    if (pthread_create(&meter->thread, NULL, run, meter) != 0) {
        free(meter);
        return slam_fail(err, SLAM_ENOMEM, "no thread for the hiccup meter");
    }
    *out = meter;
    return 0;
}

struct slam_hiccup_record *
slam_hiccup_meter_record(struct slam_hiccup_meter *meter)
{
    return &meter->record;
}

void
slam_hiccup_meter_destroy(struct slam_hiccup_meter *meter)
{
    if (!meter)
        return;
    atomic_store(&meter->stop, true);
    pthread_join(meter->thread, NULL);
    free(meter);
}
