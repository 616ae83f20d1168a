/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of a replay: made before the run (jobs/replay/trace.py), read from a
 * file that is mapped once and shared by all workers. Little-endian, aligned to 8
 * bytes:
 *
 *   header   "SLT1" and four zero bytes, u64 records, u64 connections, u64 zero
 *   record   u64 due_ns      since T0, never less than that of the record before
 *            u64 next        offset of the next record of its connection, 0: none
 *            u64 connect_ns  of an unbind: when, since T0, its connection is set up
 *                            again, SLAM_TRACE_NEVER: not at all; else 0
 *            u32 connection  of this agent: 0 to connections - 1
 *            u32 operation   of the stream
 *            u32 length      of the body
 *            u32 zero
 *            the body: what follows the messageID, as BER; zeros up to 8 bytes
 *
 * A file is checked as a whole when it is opened; after that its records are trusted.
 */
#ifndef SLAM_TRACE_H
#define SLAM_TRACE_H

#include <stddef.h>
#include <stdint.h>

#define SLAM_TRACE_NEVER UINT64_MAX

struct slam_trace_record {
    uint64_t due_ns;
    uint64_t next;
    uint64_t connect_ns;
    uint32_t connection;
    uint32_t operation;
    uint32_t length;
    uint32_t zero;
};

struct slam_trace; /* read only after slam_trace_open; shared by workers */

int slam_trace_open(const char *path, uint32_t connections, uint32_t operations,
                    struct slam_trace **trace, char *err);
void slam_trace_close(struct slam_trace *trace);

/* Longest request of the trace, in bytes, with its messageID and its SEQUENCE. */
size_t slam_trace_max_pdu(const struct slam_trace *trace);

/* The record at an offset, which the trace itself gave; NULL for 0. */
const struct slam_trace_record *slam_trace_at(const struct slam_trace *trace,
                                              uint64_t offset);

/* Offset of the first record, of the whole trace or of one connection; 0: none. */
uint64_t slam_trace_first(const struct slam_trace *trace);
uint64_t slam_trace_first_of(const struct slam_trace *trace, uint32_t connection);

/* Offset of the record that follows in the file; 0: none. */
uint64_t slam_trace_following(const struct slam_trace *trace, uint64_t offset);

/* Writes a record's request to out (slam_trace_max_pdu bytes). Returns its length. */
size_t slam_trace_encode(const struct slam_trace_record *record, int32_t message_id,
                         uint8_t *out);

#endif
