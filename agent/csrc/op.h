/* SPDX-License-Identifier: Apache-2.0 */
/* Operation templates: a request compiled once, encoded per request without allocation.
 *
 * The program (made by ldapslam.jobs, checked here) says what follows the messageID:
 *   0x01 u32 n, n bytes   literal bytes
 *   0x02 u16 i            the next value of source i
 *   0x03 u8 tag           begin a TLV
 *   0x04                  end of the innermost open TLV
 * all little-endian. Values are drawn in the program's order; the PDU is then written
 * from its end to its beginning, so that each length is known when it is written. */
#ifndef SLAM_OP_H
#define SLAM_OP_H

#include "values.h"

#include <stddef.h>
#include <stdint.h>

#define SLAM_OP_MAX_DEPTH 32u
#define SLAM_OP_MAX_VALUES 256u
#define SLAM_OP_MAX_PDU (1u << 20) /* largest request that a template may make */

struct slam_op; /* read only after slam_op_create; shared by workers */

/* Compiles a program. The program and the sources are copied. Returns 0 and *op, or a
 * negative slam_err with the reason in err. */
int slam_op_create(const uint8_t *program, size_t program_len,
                   const struct slam_value_source *sources, size_t source_count,
                   struct slam_op **op, char *err, size_t err_len);
void slam_op_destroy(struct slam_op *op);

/* Upper bound of an encoded request, in bytes. */
size_t slam_op_max_pdu(const struct slam_op *op);
/* Bytes of scratch that slam_op_encode needs for the values' texts. */
size_t slam_op_scratch_len(const struct slam_op *op);
size_t slam_op_source_count(const struct slam_op *op);
const struct slam_value_source *slam_op_source(const struct slam_op *op, size_t index);

/* Encodes one request. states has slam_op_source_count(op) elements; scratch holds
 * slam_op_scratch_len(op) bytes; message_id is 1..2^31-1. The PDU ends at end[-1]; at
 * least slam_op_max_pdu(op) bytes before `end` are writable. Returns the PDU's length:
 * it begins at end - length. */
size_t slam_op_encode(const struct slam_op *op, struct slam_value_state *states,
                      struct slam_rng *rng, char *scratch, int32_t message_id,
                      uint8_t *end);

#endif
