/* SPDX-License-Identifier: Apache-2.0 */
/* The entries that a worker's operations added: what a delete may take, and what the
 * clean-up must remove, also after the process was killed.
 *
 * A ledger is a file that grows in segments of 1 MiB, each mapped MAP_SHARED: what the
 * process wrote is the kernel's, and a SIGKILL loses none of it (a crash of the machine
 * may). One thread owns it. Numbers are in the machine's byte order:
 *
 *   offset 0          "SLL1", four bytes of zero
 *   then records      u8 state, three bytes of zero, u32 len, len bytes of DN, zeros up
 *                     to a multiple of 8
 *
 * A record lies within one segment. Where the state is 0, the segment has no further
 * record, and the next may begin at the next multiple of 1 MiB. A record is whole when
 * its state is not 0: the state is written last. Life of a record:
 *
 *   intend -> SENT -> added -> ADDED -> take -> TAKEN -> gone -> GONE
 *                  -> failed -> FAILED                -> added -> ADDED
 *
 * After a crash SENT and TAKEN are in doubt: the entry may or may not exist. */
#ifndef SLAM_LEDGER_H
#define SLAM_LEDGER_H

#include "core/rng.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLAM_LEDGER_MAGIC "SLL1"
#define SLAM_LEDGER_SEGMENT_BYTES (UINT32_C(1) << 20)
#define SLAM_LEDGER_DN_MAX 2044u /* SLAM_VARIABLE_MAX: a DN that is taken fits one */

enum slam_ledger_state {
    SLAM_LEDGER_SENT = 1,  /* the add was sent; in doubt */
    SLAM_LEDGER_ADDED = 2, /* the entry exists and may be taken */
    SLAM_LEDGER_TAKEN = 3, /* an operation has it; in doubt */
    SLAM_LEDGER_GONE = 4,  /* the run deleted or renamed it */
    SLAM_LEDGER_FAILED = 5 /* never added */
};

enum slam_ledger_order {
    SLAM_LEDGER_FIFO = 0, /* the one that is in the ledger longest */
    SLAM_LEDGER_LIFO = 1,
    SLAM_LEDGER_RANDOM = 2
};

#define SLAM_LEDGER_NONE UINT64_MAX

struct slam_ledger;

/* Creates the file, which must not exist: an old ledger is the clean-up's. */
int slam_ledger_open(const char *path, struct slam_ledger **ledger, char *err);
void slam_ledger_close(struct slam_ledger *ledger);

/* Records a DN that is about to be added. Returns its id; SLAM_LEDGER_NONE: no room, or
 * len is 0 or above SLAM_LEDGER_DN_MAX, and the add must not be sent. */
uint64_t slam_ledger_intend(struct slam_ledger *ledger, const uint8_t *dn, size_t len);

/* The entry exists and may be taken, as the youngest: it was added, or it was taken and
 * is still there. */
void slam_ledger_added(struct slam_ledger *ledger, uint64_t id);
void slam_ledger_failed(struct slam_ledger *ledger, uint64_t id); /* the add */

/* Takes an entry: its DN goes to dn (SLAM_LEDGER_DN_MAX bytes), its length to *len.
 * False: there is none. SLAM_LEDGER_RANDOM uses rng. */
bool slam_ledger_take(struct slam_ledger *ledger, enum slam_ledger_order order,
                      struct slam_rng *rng, uint64_t *id, uint8_t *dn, uint32_t *len);

/* The entry that was taken does not exist any more. */
void slam_ledger_gone(struct slam_ledger *ledger, uint64_t id);

#endif
