/* SPDX-License-Identifier: Apache-2.0 */
#include "core/slam_err.h"
#include "load/ledger.h"
#include "slam_test.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const char path[] = "ledger";
static char err[SLAM_ERR_LEN];
static struct slam_rng rng;

static struct slam_ledger *
create(void)
{
    struct slam_ledger *ledger = NULL;

    unlink(path);
    slam_ledger_open(path, &ledger, err);
    return ledger;
}

static uint64_t
intend(struct slam_ledger *ledger, const char *dn)
{
    return slam_ledger_intend(ledger, (const uint8_t *)dn, strlen(dn));
}

static uint64_t
add(struct slam_ledger *ledger, const char *dn)
{
    uint64_t id = intend(ledger, dn);

    slam_ledger_added(ledger, id);
    return id;
}

/* The DN that is taken, or "" for none. */
static const char *
take(struct slam_ledger *ledger, enum slam_ledger_order order, uint64_t *id)
{
    static uint8_t dn[SLAM_LEDGER_DN_MAX + 1];
    uint32_t len = 0;

    if (!slam_ledger_take(ledger, order, &rng, id, dn, &len))
        return "";
    dn[len] = '\0';
    return (const char *)dn;
}

/* The file's records as text: "2:dc=a 4:dc=b ". */
static const char *
contents(void)
{
    static uint8_t bytes[4 << 20];
    static char text[1 << 20];
    FILE *file = fopen(path, "r");
    size_t len = fread(bytes, 1, sizeof(bytes), file);
    size_t at = 8;
    char *out = text;

    fclose(file);
    *out = '\0';
    if (len < 8 || memcmp(bytes, "SLL1\0\0\0\0", 8) != 0)
        return "no ledger";
    while (at + 8 <= len) {
        uint32_t dn_len;

        if (at % SLAM_LEDGER_SEGMENT_BYTES == 0 && bytes[at] == 0)
            break;
        if (bytes[at] == 0) {
            at = (at / SLAM_LEDGER_SEGMENT_BYTES + 1) * SLAM_LEDGER_SEGMENT_BYTES;
            continue;
        }
        memcpy(&dn_len, bytes + at + 4, 4);
        out += sprintf(out, "%d:%.*s ", bytes[at], (int)dn_len, bytes + at + 8);
        at += (8 + dn_len + 7) / 8 * 8;
    }
    return text;
}

TEST(only_what_was_added_can_be_taken_and_only_once)
{
    struct slam_ledger *l = create();
    uint64_t id, failed;

    CHECK(l != NULL);
    failed = intend(l, "dc=b");
    intend(l, "dc=c");
    CHECK(strcmp(take(l, SLAM_LEDGER_FIFO, &id), "") == 0);
    add(l, "dc=a");
    slam_ledger_failed(l, failed);
    CHECK(strcmp(take(l, SLAM_LEDGER_FIFO, &id), "dc=a") == 0);
    CHECK(strcmp(take(l, SLAM_LEDGER_LIFO, &id), "") == 0);
    CHECK(strcmp(take(l, SLAM_LEDGER_RANDOM, &id), "") == 0);
    CHECK(strcmp(contents(), "5:dc=b 1:dc=c 3:dc=a ") == 0);
    slam_ledger_added(l, id);
    CHECK(strcmp(take(l, SLAM_LEDGER_RANDOM, &id), "dc=a") == 0);
    slam_ledger_gone(l, id);
    CHECK(strcmp(take(l, SLAM_LEDGER_RANDOM, &id), "") == 0);
    CHECK(strcmp(contents(), "5:dc=b 1:dc=c 4:dc=a ") == 0);
    slam_ledger_close(l);
}

TEST(order_says_which_is_taken)
{
    struct slam_ledger *l = create();
    uint64_t id;

    add(l, "dc=a");
    add(l, "dc=b");
    add(l, "dc=c");
    add(l, "dc=d");
    CHECK(strcmp(take(l, SLAM_LEDGER_FIFO, &id), "dc=a") == 0);
    slam_ledger_added(l, id);
    CHECK(strcmp(take(l, SLAM_LEDGER_LIFO, &id), "dc=a") == 0);
    CHECK(strcmp(take(l, SLAM_LEDGER_LIFO, &id), "dc=d") == 0);
    CHECK(strcmp(take(l, SLAM_LEDGER_FIFO, &id), "dc=b") == 0);
    CHECK(strcmp(take(l, SLAM_LEDGER_FIFO, &id), "dc=c") == 0);
    slam_ledger_close(l);
}

TEST(random_order_gives_each_as_often)
{
    struct slam_ledger *l = create();
    int seen[4] = {0};

    slam_rng_seed(&rng, 1, 0);
    for (char dn[] = "dc=0"; dn[3] < '4'; dn[3]++)
        add(l, dn);
    for (int i = 0; i < 4000; i++) {
        uint64_t id;

        seen[take(l, SLAM_LEDGER_RANDOM, &id)[3] - '0']++;
        slam_ledger_added(l, id);
    }
    for (int i = 0; i < 4; i++)
        CHECK(abs(seen[i] - 1000) < 6 * 28);
    slam_ledger_close(l);
}

TEST(many_entries_pass_through_over_segments)
{
    /* 100000 records of 32 bytes: more than three segments, the ring grown five times
     */
    enum { ENTRIES = 100000 };
    struct slam_ledger *l = create();
    char dn[64];
    uint64_t id;

    for (int i = 0; i < ENTRIES; i++) {
        snprintf(dn, sizeof(dn), "uid=%07d,dc=example", i);
        CHECK(add(l, dn) != SLAM_LEDGER_NONE);
        if (i % 3 == 0) { /* the ring goes round */
            snprintf(dn, sizeof(dn), "uid=%07d,dc=example", i / 3);
            CHECK(strcmp(take(l, SLAM_LEDGER_FIFO, &id), dn) == 0);
            slam_ledger_gone(l, id);
        }
    }
    for (int i = (ENTRIES - 1) / 3 + 1; i < ENTRIES; i++) {
        snprintf(dn, sizeof(dn), "uid=%07d,dc=example", i);
        CHECK(strcmp(take(l, SLAM_LEDGER_FIFO, &id), dn) == 0);
    }
    CHECK(strcmp(take(l, SLAM_LEDGER_FIFO, &id), "") == 0);
    slam_ledger_close(l);
}

TEST(records_do_not_straddle_segments)
{
    /* 511 records of 2048 bytes and the header leave 2040 bytes of the first segment */
    static uint8_t dn[SLAM_LEDGER_DN_MAX];
    struct slam_ledger *l = create();
    uint64_t id;

    memset(dn, 'a', sizeof(dn));
    for (int i = 0; i < 511; i++)
        CHECK(slam_ledger_intend(l, dn, 2040) != SLAM_LEDGER_NONE);
    id = slam_ledger_intend(l, dn, 2040);
    CHECK_EQ(id, SLAM_LEDGER_SEGMENT_BYTES);
    CHECK_EQ(slam_ledger_intend(l, dn, sizeof(dn)), id + 2048);
    slam_ledger_close(l);
    CHECK_EQ(strlen(contents()), 512 * (2 + 2040 + 1) + 2 + 2044 + 1);
}

TEST(kill_loses_nothing)
{
    int fds[2];
    char byte;
    pid_t child;
    int status;

    CHECK_EQ(pipe(fds), 0);
    unlink(path);
    child = fork();
    if (child == 0) {
        struct slam_ledger *l = create();
        uint64_t id;

        intend(l, "dc=sent");
        add(l, "dc=taken");
        add(l, "dc=added");
        take(l, SLAM_LEDGER_FIFO, &id);
        if (write(fds[1], "x", 1) == 1)
            pause();
        _exit(1);
    }
    CHECK_EQ(read(fds[0], &byte, 1), 1);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
    CHECK(strcmp(contents(), "1:dc=sent 3:dc=taken 2:dc=added ") == 0);
}

TEST(old_ledger_is_not_overwritten)
{
    struct slam_ledger *l = create(), *second = NULL;

    add(l, "dc=a");
    CHECK_EQ(slam_ledger_open(path, &second, err), SLAM_ESYS);
    CHECK(strstr(err, "File exists") != NULL);
    CHECK(strcmp(contents(), "2:dc=a ") == 0);
    slam_ledger_close(l);
    slam_ledger_close(NULL);
}

TEST(full_disk_is_told_and_no_signal)
{
    struct rlimit old, low;
    struct slam_ledger *l = create();
    static uint8_t dn[SLAM_LEDGER_DN_MAX];
    uint64_t count = 0;

    /* room for the first segment only; EFBIG comes with a signal */
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    low = (struct rlimit){.rlim_cur = 1 << 20, .rlim_max = old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &low);
    while (slam_ledger_intend(l, dn, sizeof(dn)) != SLAM_LEDGER_NONE)
        count++;
    setrlimit(RLIMIT_FSIZE, &old);
    CHECK_EQ(count, 510); /* of 2056 bytes; (2^20 - 8) / 2056 = 510.0… */
    CHECK_EQ(intend(l, ""), SLAM_LEDGER_NONE);
    slam_ledger_close(l);
}
