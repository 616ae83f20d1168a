/* SPDX-License-Identifier: Apache-2.0 */
#include "core/slam_err.h"
#include "ldif/ldif.h"
#include "slam_test.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define END "\x04"
#define BODY "\x13"
#define BLANK_LINE "\x11\x00" END
/* literals of 1, 2, 3 and 9 bytes */
#define L1(text) "\x01\x01\x00\x00\x00" text
#define L2(text) "\x01\x02\x00\x00\x00" text
#define L3(text) "\x01\x03\x00\x00\x00" text
#define SLOT0(level) "\x08" level "\x00\x00\x00\x00\x00\x00\x00"

static char err[SLAM_ERR_LEN];

/* An entry of name `letter` and its sibling's number, which is `source`: dn, and who is
 * above it. */
#define CHILD(letter)                                                                  \
    "\x0f\x00\x00" L2(letter "=") "\x07\x00\x00\x02" L1(",") SLOT0("\x01") END BODY    \
        "\x10\x02\x00"                                                                 \
        "dn" SLOT0("\x00") END "\x10\x01\x00"                                          \
                               "p" SLOT0("\x01") END BLANK_LINE

static const char root[] =
    "\x0f\x00\x00" L3("c=x") END BODY "\x10\x02\x00"
                                      "dn" SLOT0("\x00") END BLANK_LINE;
static const char child[] = CHILD("a");
static const char grandchild[] = CHILD("b");

static const struct slam_value_source numbers[] = {
    {.kind = SLAM_VALUE_SEQUENCE, .lo = 0, .hi = 999999, .step = 1}};

static struct slam_ldif_node
node(uint32_t parent, uint64_t count, const char *program, size_t len)
{
    return (struct slam_ldif_node){.parent = parent,
                                   .count = count,
                                   .seed = 7,
                                   .program = (const uint8_t *)program,
                                   .program_len = len};
}

#define NODE(parent, count, program) node(parent, count, program, sizeof(program) - 1)

static struct slam_ldif_config
config_of(const struct slam_ldif_node *nodes, size_t count, uint32_t threads,
          const int *fds)
{
    return (struct slam_ldif_config){.nodes = nodes,
                                     .node_count = count,
                                     .sources = numbers,
                                     .source_count = 1,
                                     .first_names = UINT32_MAX,
                                     .last_names = UINT32_MAX,
                                     .fds = fds,
                                     .output_count = 1,
                                     .threads = threads};
}

/* Writes a population to a file; its text, to be freed, or NULL. */
static char *
written(const struct slam_ldif_node *nodes, size_t count, uint32_t threads, size_t *len)
{
    char path[] = "/tmp/slam-ldif-XXXXXX";
    const int fds[] = {mkstemp(path)};
    const struct slam_ldif_config config = config_of(nodes, count, threads, fds);
    struct slam_ldif *ldif = NULL;
    bool is_done = false;
    char *text = NULL;
    off_t size;

    unlink(path);
    if (slam_ldif_create(&config, &ldif, err) != 0) {
        fprintf(stderr, "%s\n", err);
        goto out;
    }
    if (slam_ldif_start(ldif, err) != 0 ||
        slam_ldif_wait(ldif, UINT64_C(60000000000), &is_done, err) != 0 || !is_done)
        goto out;
    size = lseek(fds[0], 0, SEEK_END);
    if ((uint64_t)size != slam_ldif_progress(ldif).bytes)
        goto out;
    text = malloc((size_t)size + 1);
    if (text && pread(fds[0], text, (size_t)size, 0) == size)
        text[size] = '\0';
    *len = (size_t)size;
out:
    slam_ldif_destroy(ldif);
    close(fds[0]);
    return text;
}

TEST(entries_come_before_those_below_them)
{
    const struct slam_ldif_node nodes[] = {NODE(SLAM_LDIF_NO_PARENT, 1, root),
                                           NODE(0, 2, child), NODE(1, 2, grandchild)};
    size_t len = 0;
    char *text = written(nodes, 3, 1, &len);

    CHECK(text != NULL);
    CHECK(strcmp(text, "dn: c=x\n\n"
                       "dn: a=0,c=x\np: c=x\n\n"
                       "dn: b=0,a=0,c=x\np: a=0,c=x\n\n"
                       "dn: b=1,a=0,c=x\np: a=0,c=x\n\n"
                       "dn: a=1,c=x\np: c=x\n\n"
                       "dn: b=0,a=1,c=x\np: a=1,c=x\n\n"
                       "dn: b=1,a=1,c=x\np: a=1,c=x\n\n") == 0);
    free(text);
}

TEST(bytes_do_not_depend_on_the_threads)
{
    const struct slam_ldif_node nodes[] = {NODE(SLAM_LDIF_NO_PARENT, 1, root),
                                           NODE(0, 37, child), NODE(1, 501, grandchild),
                                           NODE(0, 3000, grandchild)};
    size_t expected_len = 0;
    char *expected = written(nodes, 4, 1, &expected_len);

    CHECK(expected != NULL);
    for (uint32_t threads = 2; threads < 8; threads++) {
        size_t len = 0;
        char *text = written(nodes, 4, threads, &len);

        CHECK(text != NULL);
        CHECK_EQ(len, expected_len);
        CHECK(memcmp(text, expected, len) == 0);
        free(text);
    }
    free(expected);
}

/* One entry longer than any buffer, between others. */
TEST(entry_longer_than_the_buffers_is_written_in_order)
{
    static const char huge[] = "\x0f\x00\x00" L3("c=x") END BODY "\x10\x02\x00"
                                                                 "dn" SLOT0("\x00") END
        "\x0d\x00\x00\x00\x00\x00\x00\x00\x00"
        "\x40\x0d\x03\x00\x00\x00\x00\x00" /* 200,000 times */
        "\x10\x01\x00"
        "n\x09" END END BLANK_LINE;
    const struct slam_ldif_node nodes[] = {NODE(SLAM_LDIF_NO_PARENT, 300, root),
                                           NODE(SLAM_LDIF_NO_PARENT, 3, huge),
                                           NODE(SLAM_LDIF_NO_PARENT, 300, root)};
    size_t len = 0;
    char *text = written(nodes, 3, 3, &len);
    const char *at;

    CHECK(text != NULL);
    at = text;
    for (int i = 0; i < 603; i++) {
        CHECK(strncmp(at, "dn: c=x\n", 8) == 0);
        at += 8;
        for (int n = 0; n < 200000 && i / 3 == 100; n++) {
            CHECK_EQ(strncmp(at, "n: ", 3), 0);
            CHECK_EQ(strtol(at + 3, (char **)&at, 10), n);
            at++;
        }
        CHECK_EQ(*at++, '\n');
    }
    CHECK_EQ((size_t)(at - text), len);
    free(text);
}

TEST(values_that_are_no_safe_strings_are_base64)
{
    static const char program[] =
        BODY "\x10\x01\x00"
             "a" L3(" bc") END "\x10\x01\x00"
                               "b" L2("b ") END "\x10\x01\x00"
                                                "c" L2(":c") END "\x10\x01\x00"
                                                                 "d" L3("\xc3\xa9"
                                                                        "x") END
        "\x10\x01\x00"
        "e" L2("<e") END "\x10\x01\x00"
                         "f" L3("f:<") END "\x10\x01\x00"
                                           "g" END "\x10\x01\x00" /* empty: left out */
                                           "h\x0a" L3("abc") END END;
    const struct slam_ldif_node nodes[] = {NODE(SLAM_LDIF_NO_PARENT, 1, program)};
    size_t len = 0;
    char *text = written(nodes, 1, 1, &len);

    CHECK(text != NULL);
    CHECK(strcmp(text, "a:: IGJj\nb:: YiA=\nc:: OmM=\nd:: w6l4\ne:: PGU=\nf: f:<\n"
                       "h: YWJj\n") == 0);
    free(text);
}

TEST(different_numbers_are_picked)
{
    static const char program[] = BODY "\x12\x01\x00\x00\x00"
                                       "\x0e\x64\x00\x00\x00\x00\x00\x00\x00"
                                       "\x64\x00\x00\x00\x00\x00\x00\x00"
                                       "\x64\x00\x00\x00\x00\x00\x00\x00"
                                       "\x10\x01\x00"
                                       "n\x09" END END;
    const struct slam_ldif_node nodes[] = {NODE(SLAM_LDIF_NO_PARENT, 50, program)};
    size_t len = 0;
    char *text = written(nodes, 1, 2, &len);
    const char *at;

    CHECK(text != NULL);
    at = text;
    for (int i = 0; i < 50; i++) {
        bool seen[100] = {false};

        for (int k = 0; k < 100; k++) {
            long n = strtol(at + 3, (char **)&at, 10);

            CHECK(n >= 0 && n < 100 && !seen[n]);
            seen[n] = true;
            at++;
        }
    }
    CHECK_EQ(*at, '\0');
    free(text);
}

TEST(broken_program_is_refused_with_the_reason)
{
    static const struct {
        const char *program;
        size_t len;
        const char *reason;
    } cases[] = {
#define CASE(program, reason) {program, sizeof(program) - 1, reason}
        CASE("\x13\x77", "unknown instruction"),
        CASE("\x0f\x00\x00\x04", "it has no body"),
        CASE("\x13\x13", "the body begins once"),
        CASE("\x13\x04", "nothing is open"),
        CASE("\x13\x11\x00", "a part is not ended"),
        CASE("\x13\x01\x01\x00\x00\x00x", "text stands outside"),
        CASE("\x13\x11\x01\x04", "no such output"),
        CASE("\x11\x00\x04\x13", "lines stand behind"),
        CASE("\x13\x0f\x00\x00\x04", "slots are filled before"),
        CASE("\x0f\x00\x00\x04\x0f\x00\x00\x04\x13", "the slot is filled twice"),
        CASE("\x0f\xff\xff\x04\x13", "too many slots"),
        CASE("\x13\x11\x00\x01\xff\xff\xff\xff", "longer than the program"),
        CASE("\x13\x11\x00\x01\x01\x00\x00\x00\n\x04", "a line feed"),
        CASE("\x13\x11\x00\x02\x05\x00\x04", "no such value source"),
        CASE("\x13\x11\x00\x02\x00\x00\x04", "have a place"),
        CASE("\x13\x11\x00\x07\x00\x00\x09\x04", "unknown place"),
        CASE("\x13\x11\x00\x07\x00\x00\x04\x04", "has no names"),
        CASE("\x13\x11\x00" SLOT0("\x00") "\x04", "not filled before"),
        CASE("\x13\x11\x00" SLOT0("\x01") "\x04", "no such ancestor"),
        CASE("\x13\x11\x00\x09\x04", "there is no loop"),
        CASE("\x13\x11\x00\x11\x00\x04\x04", "within text"),
        CASE("\x13\x0a\x04", "text stands outside"),
        CASE("\x13\x11\x00\x03\x04\x04\x04", "TLVs are of requests"),
        CASE("\x0f\x00\x00\x04\x13\x0b\x00\x00\x02\x04",
             "a slot has a text, 1, or none, 0"),
        CASE("\x13\x0b\x00\x00\x01\x04", "not filled before"),
        CASE("\x05\x41\x42\x0f\x00\x04\x13", "0 to 1000000"),
        CASE("\x0c\x00\x00\x00\x00\x00\x00\x04\x13", "not filled before"),
        CASE("\x13\x0e\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x04",
             "can be picked"),
        CASE("\x13\x0d\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0"
             "\x0d\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x04\x04",
             "a loop stands within a loop"),
        CASE("\x13\x12\x00", "an operand is missing"),
        CASE("", "1 to"),
#undef CASE
    };
    const int fds[] = {-1};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct slam_ldif_node nodes[] = {
            node(SLAM_LDIF_NO_PARENT, 1, cases[i].program, cases[i].len)};
        const struct slam_ldif_config config = config_of(nodes, 1, 1, fds);
        struct slam_ldif *ldif = NULL;

        CHECK_EQ(slam_ldif_create(&config, &ldif, err), SLAM_EINVAL);
        if (!strstr(err, cases[i].reason))
            fprintf(stderr, "case %zu: %s\n", i, err);
        CHECK(strstr(err, cases[i].reason) != NULL);
    }
}

TEST(broken_tree_is_refused)
{
    const struct slam_ldif_node orphan[] = {NODE(3, 1, root)};
    const struct slam_ldif_node empty[] = {NODE(SLAM_LDIF_NO_PARENT, 0, root)};
    const struct slam_ldif_node vast[] = {
        NODE(SLAM_LDIF_NO_PARENT, UINT64_C(1) << 40, root),
        NODE(0, UINT64_C(1) << 40, child)};
    struct slam_ldif_node deep[40];
    const int fds[] = {-1};
    struct slam_ldif *ldif = NULL;
    struct slam_ldif_config config = config_of(orphan, 1, 1, fds);

    CHECK_EQ(slam_ldif_create(&config, &ldif, err), SLAM_EINVAL);
    config = config_of(empty, 1, 1, fds);
    CHECK_EQ(slam_ldif_create(&config, &ldif, err), SLAM_EINVAL);
    config = config_of(vast, 2, 1, fds);
    CHECK_EQ(slam_ldif_create(&config, &ldif, err), SLAM_EINVAL);
    CHECK(strstr(err, "2^62") != NULL);
    for (uint32_t i = 0; i < 40; i++)
        deep[i] = NODE(i == 0 ? SLAM_LDIF_NO_PARENT : i - 1, 1, root);
    config = config_of(deep, 40, 1, fds);
    CHECK_EQ(slam_ldif_create(&config, &ldif, err), SLAM_EINVAL);
    CHECK(strstr(err, "levels deep") != NULL);
    config = config_of(deep, 1, 0, fds);
    CHECK_EQ(slam_ldif_create(&config, &ldif, err), SLAM_EINVAL);
}

TEST(failed_write_is_told)
{
    const struct slam_ldif_node nodes[] = {NODE(SLAM_LDIF_NO_PARENT, 1000000, root)};
    const int fds[] = {open("/dev/full", O_WRONLY)};
    const struct slam_ldif_config config = config_of(nodes, 1, 3, fds);
    struct slam_ldif *ldif = NULL;
    bool is_done = false;

    CHECK_EQ(slam_ldif_create(&config, &ldif, err), 0);
    CHECK_EQ(slam_ldif_start(ldif, err), 0);
    CHECK_EQ(slam_ldif_wait(ldif, UINT64_C(60000000000), &is_done, err), SLAM_ESYS);
    CHECK(is_done);
    CHECK(strstr(err, "No space left") != NULL);
    slam_ldif_destroy(ldif);
    close(fds[0]);
}

TEST(writing_can_be_stopped)
{
    const struct slam_ldif_node nodes[] = {
        NODE(SLAM_LDIF_NO_PARENT, UINT64_C(1) << 50, root)};
    const int fds[] = {open("/dev/null", O_WRONLY)};
    const struct slam_ldif_config config = config_of(nodes, 1, 3, fds);
    struct slam_ldif *ldif = NULL;
    bool is_done = true;

    CHECK_EQ(slam_ldif_create(&config, &ldif, err), 0);
    CHECK_EQ(slam_ldif_entries(ldif), INT64_C(1) << 50);
    CHECK_EQ(slam_ldif_start(ldif, err), 0);
    CHECK_EQ(slam_ldif_start(ldif, err), SLAM_ESTATE);
    while (slam_ldif_progress(ldif).entries == 0) {
    }
    CHECK_EQ(slam_ldif_wait(ldif, 0, &is_done, err), 0);
    CHECK(!is_done);
    slam_ldif_stop(ldif);
    CHECK_EQ(slam_ldif_wait(ldif, UINT64_C(60000000000), &is_done, err), 0);
    CHECK(is_done);
    slam_ldif_destroy(ldif);
    slam_ldif_destroy(NULL);
    close(fds[0]);
}

TEST(writing_for_nobody_can_be_stopped)
{
    const struct slam_ldif_node nodes[] = {
        NODE(SLAM_LDIF_NO_PARENT, UINT64_C(1) << 50, root)};
    int fds[2];
    struct slam_ldif_config config;
    struct slam_ldif *ldif = NULL;
    struct pollfd room;
    bool is_done = false;

    CHECK_EQ(pipe(fds), 0);
    room = (struct pollfd){.fd = fds[1], .events = POLLOUT};
    config = config_of(nodes, 1, 3, &fds[1]);
    CHECK_EQ(slam_ldif_create(&config, &ldif, err), 0);
    CHECK_EQ(slam_ldif_start(ldif, err), 0);
    while (poll(&room, 1, 0) > 0) {
    }
    slam_ldif_stop(ldif);
    CHECK_EQ(slam_ldif_wait(ldif, UINT64_C(10000000000), &is_done, err), 0);
    CHECK(is_done);
    close(fds[0]);
    slam_ldif_destroy(ldif);
    close(fds[1]);
}
