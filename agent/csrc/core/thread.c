/* SPDX-License-Identifier: Apache-2.0 */
#include "core/thread.h"

#include "core/clock.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#define BUDGET_WINDOW_NS (SLAM_NS_PER_S / 10)
#define BUDGET_SHARE 0.80
#define BUDGET_SPIN_SHARE 0.50 /* below: may spin again */

/* Two readings of CLOCK_REALTIME - CLOCK_MONOTONIC differ by less than this unless the
 * wall clock was stepped: both clocks are slewed alike. */
#define CLOCK_STEP_MIN_NS UINT64_C(1000000)

static bool
take_realtime(void)
{
    const struct sched_param param = {.sched_priority = 1};

    return pthread_setschedparam(pthread_self(), SCHED_FIFO, &param) == 0;
}

/* Since Linux 6.12 real-time threads have no timer slack of their own, and get the
 * usual 50 us when they become ordinary ones. */
static void
leave_realtime(int policy, const struct sched_param *param)
{
    pthread_setschedparam(pthread_self(), policy, param);
    prctl(PR_SET_TIMERSLACK, 1UL);
}

void
slam_thread_open(struct slam_thread *thread, bool want_realtime)
{
    *thread = (struct slam_thread){0};
    prctl(PR_SET_TIMERSLACK, 1UL);
    thread->realtime = want_realtime && take_realtime();
    thread->spins = thread->realtime;
    thread->schedstat_fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
}

void
slam_thread_raise(struct slam_thread *thread)
{
    if (pthread_getschedparam(pthread_self(), &thread->usual_policy, &thread->usual) ==
        0)
        thread->realtime = take_realtime();
}

void
slam_thread_lower(struct slam_thread *thread)
{
    if (thread->realtime)
        leave_realtime(thread->usual_policy, &thread->usual);
    thread->realtime = false;
}

void
slam_thread_close(struct slam_thread *thread)
{
    if (thread->schedstat_fd >= 0)
        close(thread->schedstat_fd);
    thread->schedstat_fd = -1;
}

uint64_t
slam_thread_run_queue_ns(const struct slam_thread *thread)
{
    char text[96];
    unsigned long long on_cpu;
    unsigned long long waiting = 0;
    int fd = thread->schedstat_fd;
    ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);

    if (n <= 0)
        return 0;
    text[n] = '\0';
    if (sscanf(text, "%llu %llu", &on_cpu, &waiting) != 2)
        return 0;
    return waiting;
}

void
slam_thread_watch(struct slam_thread *thread, uint64_t now_ns)
{
    const struct sched_param param = {.sched_priority = 0};
    uint64_t cpu_ns;
    double share;

    if (!thread->realtime || now_ns < thread->window_start_ns + BUDGET_WINDOW_NS)
        return;
    cpu_ns = slam_clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    share = (double)(cpu_ns - thread->window_cpu_ns) /
            (double)(now_ns - thread->window_start_ns);
    if (share > BUDGET_SHARE && !thread->spins) {
        leave_realtime(SCHED_OTHER, &param);
        thread->realtime = false;
    }
    if (share > BUDGET_SHARE)
        thread->spins = false;
    else if (share < BUDGET_SPIN_SHARE)
        thread->spins = thread->realtime;
    thread->window_start_ns = now_ns;
    thread->window_cpu_ns = cpu_ns;
}

uint64_t
slam_thread_realtime_offset_ns(void)
{
    uint64_t best_width = UINT64_MAX;
    uint64_t offset = 0;

    for (int i = 0; i < 5; i++) {
        uint64_t before = slam_clock_mono_ns();
        uint64_t real = slam_clock_read_ns(CLOCK_REALTIME);
        uint64_t after = slam_clock_mono_ns();

        if (after - before < best_width) {
            best_width = after - before;
            offset = real - (before + best_width / 2);
        }
    }
    return offset;
}

uint64_t
slam_thread_update_offset(uint64_t *offset_ns)
{
    uint64_t before = *offset_ns;
    uint64_t ahead = slam_thread_realtime_offset_ns() - before;
    uint64_t step = ahead < UINT64_MAX / 2 ? ahead : (uint64_t)0 - ahead;

    *offset_ns = before + ahead;
    return step >= CLOCK_STEP_MIN_NS ? step : 0;
}
