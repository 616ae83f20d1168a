/* SPDX-License-Identifier: Apache-2.0 */
#include "load/ledger.h"

#include "core/slam_err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SEGMENTS_MAX 65536u /* 64 GiB of DNs */
#define FIRST_RECORD 8u
#define RECORD_HEADER 8u
#define INITIAL_CAPACITY (UINT64_C(1) << 12)

/* ids of the entries that may be taken: a ring whose capacity is a power of two. */
struct ring {
    uint64_t *ids;
    uint64_t capacity;
    uint64_t head; /* the oldest is ids[head % capacity] */
    uint64_t tail; /* tail - head of them */
};

struct slam_ledger {
    int fd;
    uint64_t used;   /* bytes of the file that hold records */
    uint64_t mapped; /* segments */
    uint64_t live;   /* records that are or may become available: ring's room */
    struct ring ring;
    uint8_t **segments; /* [SEGMENTS_MAX]; pages of it are touched as it fills */
};

static uint8_t *
record_at(const struct slam_ledger *l, uint64_t id)
{
    return l->segments[id / SLAM_LEDGER_SEGMENT_BYTES] + id % SLAM_LEDGER_SEGMENT_BYTES;
}

/* Release: the compiler must not move the record's bytes behind its state. */
static void
set_state(struct slam_ledger *l, uint64_t id, enum slam_ledger_state state)
{
    atomic_store_explicit((_Atomic uint8_t *)record_at(l, id), (uint8_t)state,
                          memory_order_release);
}

/* Maps one more segment, allocated first: a full disk is an error here, not a SIGBUS at
 * some write. Returns 0 or an errno. */
static int
add_segment(struct slam_ledger *l)
{
    off_t at = (off_t)(l->mapped * SLAM_LEDGER_SEGMENT_BYTES);
    void *segment;
    int rc;

    if (l->mapped == SEGMENTS_MAX)
        return EFBIG;
    rc = posix_fallocate(l->fd, at, SLAM_LEDGER_SEGMENT_BYTES);
    if (rc != 0)
        return rc;
    segment = mmap(NULL, SLAM_LEDGER_SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
                   l->fd, at);
    if (segment == MAP_FAILED)
        return errno;
    l->segments[l->mapped++] = segment;
    return 0;
}

/* Killed at any time, the process leaves no file, an empty one or a ledger. Returns 0
 * or an errno. */
static int
write_header(int fd)
{
    static const char header[FIRST_RECORD] = SLAM_LEDGER_MAGIC;
    ssize_t written = write(fd, header, sizeof(header));

    if (written < 0)
        return errno;
    return written == (ssize_t)sizeof(header) ? 0 : ENOSPC;
}

int
slam_ledger_open(const char *path, struct slam_ledger **ledger, char *err)
{
    struct slam_ledger *l = calloc(1, sizeof(*l));
    int rc;

    if (!l)
        return slam_fail(err, SLAM_ENOMEM, "no memory for a ledger");
    l->ring.capacity = INITIAL_CAPACITY;
    l->ring.ids = malloc(INITIAL_CAPACITY * sizeof(*l->ring.ids));
    l->segments = calloc(SEGMENTS_MAX, sizeof(*l->segments));
    l->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (!l->ring.ids || !l->segments)
        rc = ENOMEM;
    else if (l->fd < 0)
        rc = errno;
    else
        rc = write_header(l->fd);
    if (rc == 0)
        rc = add_segment(l);
    if (rc != 0) {
        snprintf(err, SLAM_ERR_LEN, "cannot create the ledger '%s': %s", path,
                 strerror(rc));
        slam_ledger_close(l);
        return SLAM_ESYS;
    }
    l->used = FIRST_RECORD;
    *ledger = l;
    return SLAM_OK;
}

void
slam_ledger_close(struct slam_ledger *l)
{
    if (!l)
        return;
    for (uint64_t i = 0; i < l->mapped; i++)
        munmap(l->segments[i], SLAM_LEDGER_SEGMENT_BYTES);
    if (l->fd >= 0)
        close(l->fd);
    free(l->segments);
    free(l->ring.ids);
    free(l);
}

/* Doubles the ring; n entries in all cost less than 16 n bytes of copying. */
static bool
ring_grow(struct ring *ring)
{
    uint64_t capacity = 2 * ring->capacity;
    uint64_t *ids = malloc(capacity * sizeof(*ids));

    if (!ids)
        return false;
    for (uint64_t i = ring->head; i != ring->tail; i++)
        ids[i & (capacity - 1)] = ring->ids[i & (ring->capacity - 1)];
    free(ring->ids);
    ring->ids = ids;
    ring->capacity = capacity;
    return true;
}

static uint64_t *
ring_at(const struct ring *ring, uint64_t i)
{
    return &ring->ids[i & (ring->capacity - 1)];
}

uint64_t
slam_ledger_intend(struct slam_ledger *l, const uint8_t *dn, size_t len)
{
    uint64_t bytes = (RECORD_HEADER + len + 7) / 8 * 8;
    uint64_t id = l->used;
    uint32_t len32 = (uint32_t)len;
    uint8_t *record;

    if (len == 0 || len > SLAM_LEDGER_DN_MAX)
        return SLAM_LEDGER_NONE;
    /* Every live record may want to be in the ring at once. */
    if (l->live == l->ring.capacity && !ring_grow(&l->ring))
        return SLAM_LEDGER_NONE;
    if (id % SLAM_LEDGER_SEGMENT_BYTES + bytes > SLAM_LEDGER_SEGMENT_BYTES)
        id = (id / SLAM_LEDGER_SEGMENT_BYTES + 1) * SLAM_LEDGER_SEGMENT_BYTES;
    if (id / SLAM_LEDGER_SEGMENT_BYTES >= l->mapped && add_segment(l) != 0)
        return SLAM_LEDGER_NONE;
    record = record_at(l, id);
    memcpy(record + 4, &len32, sizeof(len32));
    memcpy(record + RECORD_HEADER, dn, len);
    set_state(l, id, SLAM_LEDGER_SENT);
    l->used = id + bytes;
    l->live++;
    return id;
}

void
slam_ledger_added(struct slam_ledger *l, uint64_t id)
{
    set_state(l, id, SLAM_LEDGER_ADDED);
    *ring_at(&l->ring, l->ring.tail++) = id;
}

void
slam_ledger_failed(struct slam_ledger *l, uint64_t id)
{
    set_state(l, id, SLAM_LEDGER_FAILED);
    l->live--;
}

bool
slam_ledger_take(struct slam_ledger *l, enum slam_ledger_order order,
                 struct slam_rng *rng, uint64_t *id, uint8_t *dn, uint32_t *len)
{
    struct ring *ring = &l->ring;
    uint64_t count = ring->tail - ring->head;
    const uint8_t *record;

    if (count == 0)
        return false;
    switch (order) {
    case SLAM_LEDGER_LIFO:
        *id = *ring_at(ring, --ring->tail);
        break;
    case SLAM_LEDGER_RANDOM: {
        /* the oldest moves into the gap */
        uint64_t *drawn = ring_at(ring, ring->head + slam_rng_below(rng, count));

        *id = *drawn;
        *drawn = *ring_at(ring, ring->head++);
        break;
    }
    case SLAM_LEDGER_FIFO:
    default:
        *id = *ring_at(ring, ring->head++);
        break;
    }
    record = record_at(l, *id);
    memcpy(len, record + 4, sizeof(*len));
    memcpy(dn, record + RECORD_HEADER, *len);
    set_state(l, *id, SLAM_LEDGER_TAKEN);
    return true;
}

void
slam_ledger_gone(struct slam_ledger *l, uint64_t id)
{
    set_state(l, id, SLAM_LEDGER_GONE);
    l->live--;
}
