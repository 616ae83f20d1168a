/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded: steps the wall clock of one process, for a time that is in its
 * environment. The kernel's clock of a test machine is not a test's to set, and no
 * namespace has one of its own. CLOCK_MONOTONIC is as it is. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

/* STEPPED_CLOCK_FILE: the clock is ahead once it exists; STEPPED_CLOCK_MS: by that. */
int
clock_gettime(clockid_t id, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    static const char *file;
    static long step_ms;
    struct stat found;

    if (real == NULL) {
        const char *step = getenv("STEPPED_CLOCK_MS");

        file = getenv("STEPPED_CLOCK_FILE");
        step_ms = step != NULL ? atol(step) : 0;
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    }
    int status = real(id, now);

    if (status == 0 && id == CLOCK_REALTIME && file != NULL &&
        stat(file, &found) == 0) {
        now->tv_sec += step_ms / 1000;
        now->tv_nsec += step_ms % 1000 * 1000000;
        if (now->tv_nsec >= 1000000000) {
            now->tv_sec++;
            now->tv_nsec -= 1000000000;
        }
    }
    return status;
}
