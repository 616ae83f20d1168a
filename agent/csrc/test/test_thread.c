/* SPDX-License-Identifier: Apache-2.0 */
#include "core/thread.h"
#include "slam_test.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

static int
policy(void)
{
    struct sched_param param;
    int found = -1;

    pthread_getschedparam(pthread_self(), &found, &param);
    return found;
}

/* Whether the kernel lets this process have real-time priority; as it was after. */
static bool
is_granted(void)
{
    const struct sched_param fifo = {.sched_priority = 1};
    const struct sched_param other = {.sched_priority = 0};

    return pthread_setschedparam(pthread_self(), SCHED_FIFO, &fifo) == 0 &&
           pthread_setschedparam(pthread_self(), SCHED_OTHER, &other) == 0;
}

TEST(priority_of_a_moment_is_given_back)
{
    struct slam_thread thread;
    int raised = is_granted() ? SCHED_FIFO : SCHED_OTHER;

    slam_thread_open(&thread, false);
    CHECK_EQ(policy(), SCHED_OTHER);
    slam_thread_raise(&thread);
    CHECK_EQ(policy(), raised);
    slam_thread_lower(&thread);
    CHECK_EQ(policy(), SCHED_OTHER);
    CHECK_EQ(prctl(PR_GET_TIMERSLACK), 1);
    slam_thread_lower(&thread);
    CHECK_EQ(policy(), SCHED_OTHER);
    slam_thread_close(&thread);
}

TEST(what_the_thread_was_given_by_others_comes_back)
{
    const struct sched_param other = {.sched_priority = 0};
    struct slam_thread thread;

    slam_thread_open(&thread, false);
    CHECK_EQ(pthread_setschedparam(pthread_self(), SCHED_BATCH, &other), 0);
    slam_thread_raise(&thread);
    slam_thread_lower(&thread);
    CHECK_EQ(policy(), SCHED_BATCH);
    CHECK_EQ(pthread_setschedparam(pthread_self(), SCHED_OTHER, &other), 0);
    slam_thread_close(&thread);
}

TEST(thread_that_wants_real_time_priority_has_it_at_once)
{
    struct slam_thread thread;
    bool granted = is_granted();

    slam_thread_open(&thread, true);
    CHECK_EQ(thread.realtime, granted);
    CHECK_EQ(policy(), granted ? SCHED_FIFO : SCHED_OTHER);
    slam_thread_close(&thread);
}

TEST(offset_of_the_wall_clock_is_measured_after_a_step_alone)
{
    uint64_t known = slam_thread_realtime_offset_ns();
    uint64_t offset = known;

    slam_thread_follow_offset(&offset, known + 9000);
    slam_thread_follow_offset(&offset, known - 9000);
    CHECK_EQ(offset, known);
    /* what one reading says is not believed: the thread may have been interrupted */
    slam_thread_follow_offset(&offset, known + 5000000);
    CHECK(offset - known + 100000 < 200000);
    for (int forward = 0; forward < 2; forward++) {
        offset = forward ? known + UINT64_C(3600000000000) : 0;
        slam_thread_follow_offset(&offset, known);
        CHECK(offset - known + 100000 < 200000);
    }
}
