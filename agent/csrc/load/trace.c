/* SPDX-License-Identifier: Apache-2.0 */
#include "load/trace.h"

#include "core/ber.h"
#include "core/file.h"
#include "core/slam_err.h"

#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "traces are mapped as they are: little-endian"
#endif

/* A request of 1 MiB, as templates make (SLAM_TEMPLATE_PDU_MAX), less its envelope. */
#define BODY_MAX (1u << 20)
#define ENVELOPE_MAX 11u

struct header {
    char magic[8];
    uint64_t records;
    uint64_t connections;
    uint64_t zero;
};

static const char magic[8] = "SLT1";

struct slam_trace {
    void *at;
    size_t len;
    uint64_t *first_of; /* [connections] */
    size_t max_pdu;
};

_Static_assert(sizeof(struct slam_trace_record) == 40, "as the file has it");
_Static_assert(sizeof(struct header) == 32, "as the file has it");

static uint64_t
end_of(uint64_t offset, const struct slam_trace_record *record)
{
    return offset + sizeof(*record) + (((uint64_t)record->length + 7) & ~UINT64_C(7));
}

static int
fail(char *err, uint64_t offset, const char *what)
{
    return slam_fail(err, SLAM_EINVAL, "trace: at byte %llu: %s",
                     (unsigned long long)offset, what);
}

/* Where the last record of each connection seen so far is, or 0. */
struct check {
    const struct header *header;
    uint32_t operations;
    uint64_t *last_of;
    uint64_t due_ns;
};

static const char *
check_record(const struct slam_trace *trace, struct check *check, uint64_t offset)
{
    const struct slam_trace_record *record = slam_trace_at(trace, offset);
    uint64_t *first, *last;

    if (trace->len - offset < sizeof(*record))
        return "the file ends within a record";
    if (record->length < 2 || record->length > BODY_MAX)
        return "the length of a body is out of range";
    if (end_of(offset, record) > trace->len)
        return "the file ends within a body";
    if (record->connection >= check->header->connections)
        return "the number of a connection is out of range";
    if (record->operation >= check->operations)
        return "the number of an operation is out of range";
    if (record->due_ns < check->due_ns)
        return "records are not in the order of their times";
    first = &trace->first_of[record->connection];
    last = &check->last_of[record->connection];
    if (*last == 0)
        *first = offset;
    else if (slam_trace_at(trace, *last)->next != offset)
        return "it is not the one that the record before it on its connection names";
    *last = offset;
    check->due_ns = record->due_ns;
    return NULL;
}

static int
check_all(struct slam_trace *trace, struct check *check, char *err)
{
    uint64_t offset = sizeof(struct header);
    uint32_t longest = 0;

    for (uint64_t i = 0; i < check->header->records; i++) {
        const char *wrong = check_record(trace, check, offset);
        const struct slam_trace_record *record = slam_trace_at(trace, offset);

        if (wrong)
            return fail(err, offset, wrong);
        longest = record->length > longest ? record->length : longest;
        offset = end_of(offset, record);
    }
    if (offset != trace->len)
        return fail(err, offset, "something follows the last record");
    for (uint64_t c = 0; c < check->header->connections; c++)
        if (check->last_of[c] && slam_trace_at(trace, check->last_of[c])->next != 0)
            return fail(err, check->last_of[c],
                        "the last record of a connection names another one");
    trace->max_pdu = longest + ENVELOPE_MAX;
    return SLAM_OK;
}

static int
check_file(struct slam_trace *trace, uint32_t connections, uint32_t operations,
           char *err)
{
    struct check check = {.header = trace->at, .operations = operations};
    int status;

    if (trace->len < sizeof(struct header) ||
        memcmp(check.header->magic, magic, sizeof(magic)) != 0)
        return fail(err, 0, "this is no trace");
    if (check.header->connections > connections)
        return fail(err, 0, "it has more connections than the stream");
    /* of the stream's size: a connection may have no record */
    trace->first_of = calloc((size_t)connections + 1, sizeof(*trace->first_of));
    check.last_of = calloc((size_t)connections + 1, sizeof(*check.last_of));
    if (trace->first_of && check.last_of)
        status = check_all(trace, &check, err);
    else
        status = SLAM_ENOMEM;
    free(check.last_of);
    return status;
}

int
slam_trace_open(const char *path, uint32_t connections, uint32_t operations,
                struct slam_trace **trace, char *err)
{
    struct slam_trace *opened = calloc(1, sizeof(*opened));
    int status;

    if (!opened)
        return SLAM_ENOMEM;
    status = slam_file_map(path, &opened->at, &opened->len, err);
    if (status == SLAM_OK)
        status = check_file(opened, connections, operations, err);
    if (status == SLAM_OK)
        *trace = opened;
    else
        slam_trace_close(opened);
    return status;
}

void
slam_trace_close(struct slam_trace *trace)
{
    if (!trace)
        return;
    if (trace->at)
        munmap(trace->at, trace->len);
    free(trace->first_of);
    free(trace);
}

size_t
slam_trace_max_pdu(const struct slam_trace *trace)
{
    return trace->max_pdu;
}

const struct slam_trace_record *
slam_trace_at(const struct slam_trace *trace, uint64_t offset)
{
    if (offset == 0)
        return NULL;
    return (const struct slam_trace_record *)(const void *)((const uint8_t *)trace->at +
                                                            offset);
}

uint64_t
slam_trace_first(const struct slam_trace *trace)
{
    return trace->len > sizeof(struct header) ? sizeof(struct header) : 0;
}

uint64_t
slam_trace_first_of(const struct slam_trace *trace, uint32_t connection)
{
    return trace->first_of[connection];
}

uint64_t
slam_trace_following(const struct slam_trace *trace, uint64_t offset)
{
    uint64_t end = end_of(offset, slam_trace_at(trace, offset));

    return end < trace->len ? end : 0;
}

size_t
slam_trace_encode(const struct slam_trace_record *record, int32_t message_id,
                  uint8_t *out)
{
    const size_t id_len = slam_ber_integer_len((uint32_t)message_id);
    uint8_t *at =
        slam_ber_put_header(out, SLAM_BER_SEQUENCE, 2 + id_len + record->length);

    at = slam_ber_put_message_id(at, message_id);
    memcpy(at, record + 1, record->length);
    return (size_t)(at + record->length - out);
}
