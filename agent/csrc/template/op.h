/* SPDX-License-Identifier: Apache-2.0 */
/* Operation templates: a request compiled once, encoded per request without allocation.
 *
 * The program (made by ldapslam.jobs, checked here) says what follows the messageID:
 *   0x01 u32 n, n bytes   literal bytes
 *   0x02 u16 i            the next value of source i
 *   0x03 u8 tag           begin a TLV
 *   0x04                  end of the innermost open TLV
 *   0x05 u32 ppm          begin a part that is present with a probability of ppm / 10^6
 *   0x06                  end of the innermost such part
 * all little-endian. TLVs and parts nest in each other. A part that is absent draws no
 * values; a reference to one of them is empty. Values are drawn in the program's order;
 * the PDU is then written from its end to its beginning, so that each length is known
 * when it is written. */
#ifndef SLAM_OP_H
#define SLAM_OP_H

#include "template/values.h"

#include <stddef.h>
#include <stdint.h>

#define SLAM_OP_MAX_DEPTH 32u /* of TLVs and optional parts together */
#define SLAM_OP_MAX_VALUES 256u
#define SLAM_OP_MAX_CHANCES 256u
#define SLAM_OP_MAX_PDU (1u << 20) /* largest request that a template may make */

struct slam_op; /* read only after slam_op_create; shared by workers */

/* Compiles a program. The program, the sources and their data are copied; files are
 * opened through feeds, which outlives the op (NULL where no source has a file).
 * Returns 0 and *op, or a negative slam_err with the reason in err. Control thread
 * only. */
int slam_op_create(const uint8_t *program, size_t program_len,
                   const struct slam_value_source *sources, size_t source_count,
                   struct slam_feeds *feeds, struct slam_op **op, char *err,
                   size_t err_len);
void slam_op_destroy(struct slam_op *op);

/* Upper bound of an encoded request, in bytes. */
size_t slam_op_max_pdu(const struct slam_op *op);
/* Upper bound of the template's text, in bytes, or SIZE_MAX for one that has TLVs. */
size_t slam_op_max_text(const struct slam_op *op);
/* Bytes of scratch that slam_op_encode and slam_op_text need for the values' texts. */
size_t slam_op_scratch_len(const struct slam_op *op);
/* Variables that the session must have: one more than the highest number used. */
uint32_t slam_op_variable_count(const struct slam_op *op);
size_t slam_op_source_count(const struct slam_op *op);
const struct slam_value_source *slam_op_source(const struct slam_op *op, size_t index);

/* Encodes one request. states has slam_op_source_count(op) elements; scratch holds
 * slam_op_scratch_len(op) bytes; message_id is 1..2^31-1. The PDU ends at end[-1]; at
 * least slam_op_max_pdu(op) bytes before `end` are writable. Returns the PDU's length:
 * it begins at end - length. */
size_t slam_op_encode(const struct slam_op *op, struct slam_value_state *states,
                      const struct slam_draw *draw, char *scratch, int32_t message_id,
                      uint8_t *end);

/* The text of a template without TLVs (slam_op_max_text says so), for variables: drawn
 * as by slam_op_encode, without an envelope. Returns its length, or (size_t)-1 when it
 * is longer than cap bytes: it is never cut. */
size_t slam_op_text(const struct slam_op *op, struct slam_value_state *states,
                    const struct slam_draw *draw, char *scratch, uint8_t *out,
                    size_t cap);

#endif
