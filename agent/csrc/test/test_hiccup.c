/* SPDX-License-Identifier: Apache-2.0 */
#include "core/clock.h"
#include "core/hiccup.h"
#include "core/slam_err.h"
#include "slam_test.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAUSE_NS UINT64_C(80000000)

TEST(takes_maximum_and_sum_of_stalls)
{
    struct slam_hiccup_record record = {0};
    struct slam_hiccups taken;

    slam_hiccup_note(&record, 60000);
    slam_hiccup_note(&record, 999999);
    slam_hiccup_note(&record, 30000);
    taken = slam_hiccup_take(&record);
    CHECK_EQ(taken.max_ns, 999999);
    CHECK_EQ(taken.stalled_ns, 0);
    slam_hiccup_note(&record, 1000000);
    slam_hiccup_note(&record, 7000000);
    slam_hiccup_note(&record, 10);
    taken = slam_hiccup_take(&record);
    CHECK_EQ(taken.max_ns, 7000000);
    CHECK_EQ(taken.stalled_ns, 8000000);
    taken = slam_hiccup_take(&record);
    CHECK_EQ(taken.max_ns, 0);
    CHECK_EQ(taken.stalled_ns, 0);
}

/* In a process of its own: says that it runs, is stopped for a while, and tells. */
static void
measure_until_told(int begun, int go_on, int told)
{
    struct slam_hiccup_meter *meter;
    struct slam_hiccup_record *record;
    struct slam_hiccups taken;
    char err[SLAM_ERR_LEN];
    char byte = 0;

    if (slam_hiccup_meter_start(false, &meter, err) != 0)
        _exit(1);
    record = slam_hiccup_meter_record(meter);
    while (atomic_load(&record->max_ns) == 0)
        ;
    slam_hiccup_take(record);
    if (write(begun, &byte, 1) != 1 || read(go_on, &byte, 1) != 1)
        _exit(1);
    while (atomic_load(&record->max_ns) < PAUSE_NS / 2)
        ;
    taken = slam_hiccup_take(record);
    slam_hiccup_meter_destroy(meter);
    _exit(write(told, &taken, sizeof(taken)) == sizeof(taken) ? 0 : 1);
}

TEST(sees_that_its_process_was_stopped)
{
    struct timespec pause = slam_clock_timespec(PAUSE_NS);
    struct slam_hiccups taken = {0};
    int begun[2], go_on[2], told[2], status;
    char byte = 0;
    pid_t child;

    CHECK(pipe(begun) == 0 && pipe(go_on) == 0 && pipe(told) == 0);
    child = fork();
    if (child == 0)
        measure_until_told(begun[1], go_on[0], told[1]);
    CHECK(child > 0);
    CHECK_EQ(read(begun[0], &byte, 1), 1);
    CHECK_EQ(kill(child, SIGSTOP), 0);
    CHECK_EQ(waitpid(child, &status, WUNTRACED), child);
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    CHECK_EQ(kill(child, SIGCONT), 0);
    CHECK_EQ(write(go_on[1], &byte, 1), 1);
    CHECK_EQ(read(told[0], &taken, sizeof(taken)), (ssize_t)sizeof(taken));
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK(taken.max_ns >= PAUSE_NS - SLAM_HICCUP_SLEEP_NS);
    CHECK(taken.stalled_ns >= taken.max_ns);
}
