/* SPDX-License-Identifier: Apache-2.0 */
/* Templates: programs that write text with values in it. The same machine writes
 * requests (BER, RFC 4511), the texts of variables, and entries (LDIF, RFC 2849): see
 * ldif/ldif.h. ldapslam.jobs makes programs; slam_template_create and
 * slam_ldif_create check them.
 *
 * A program is a sequence of instructions; operands are little-endian. Text:
 *   0x01 LITERAL u32 n, n bytes   the bytes
 *   0x02 VALUE u16 i              the next value of source i
 *   0x03 TLV u8 tag .. END        a TLV of the text within; its length is written last
 *   0x04 END                      ends the innermost part
 *   0x05 CHANCE u32 ppm .. END    present with a probability of ppm / 10^6
 *   0x06 OPTIONAL_TLV u8 tag, u32 n .. END
 *                                 a TLV, left out if its content has fewer than n bytes
 *   0x07 PLACED u16 i, u8 place   the value of source i at the entry's number: see
 *                                 slam_place
 *   0x08 SLOT u8 l, u16 s, u32 m, u8 form
 *                                 slot s of the entry l levels above, 0 is this one; at
 *                                 most m bytes (0: all); see slam_text_form
 *   0x09 NUMBER                   the number of the loop around it
 *   0x0a BASE64 .. END            the text within in base64
 *   0x0b IF u16 s, u8 w .. END    if slot s has a text (w 1) or has none (w 0)
 *   0x0c EQUAL u16 s, u32 n, n bytes .. END
 *                                 if slot s has this text
 *   0x0d LOOP u64 lo, u64 n .. END
 *                                 n times, with the numbers from lo
 *   0x0e PICK u64 n, u64 a, u64 b .. END
 *                                 a to b times, with different numbers below n
 * Entries alone:
 *   0x0f FILL u16 s .. END        the text within becomes the text of slot s
 *   0x10 LINE u16 n, n bytes .. END
 *                                 an attribute's description and its value; left out if
 *                                 the value is empty
 *   0x11 OUTPUT u8 o .. END       a line of output o as it is; 0 is the LDIF
 *   0x12 FIELD u32 n              what is drawn from here on belongs to field n
 *   0x13 BODY                     once: FILL stands before it, LINE and OUTPUT behind.
 *                                 An entry whose slots are wanted by those below it is
 *                                 run as far as this
 *
 * A request is text; its slots are the session's variables, which IF and EQUAL read. An
 * entry has text within FILL, LINE and OUTPUT. CHANCE, IF, EQUAL and loops stand in
 * text and around lines; a loop within a loop is refused. A part that is absent draws
 * no values. */
#ifndef SLAM_TEMPLATE_H
#define SLAM_TEMPLATE_H

#include "template/values.h"

#include <stddef.h>
#include <stdint.h>

#define SLAM_TEMPLATE_DEPTH_MAX 32u /* parts within parts */
#define SLAM_TEMPLATE_SOURCES_MAX 65535u
#define SLAM_TEMPLATE_PDU_MAX (1u << 20) /* largest request, in bytes */

enum slam_template_code {
    SLAM_CODE_LITERAL = 0x01,
    SLAM_CODE_VALUE = 0x02,
    SLAM_CODE_TLV = 0x03,
    SLAM_CODE_END = 0x04,
    SLAM_CODE_CHANCE = 0x05,
    SLAM_CODE_OPTIONAL_TLV = 0x06,
    SLAM_CODE_PLACED = 0x07,
    SLAM_CODE_SLOT = 0x08,
    SLAM_CODE_NUMBER = 0x09,
    SLAM_CODE_BASE64 = 0x0a,
    SLAM_CODE_IF = 0x0b,
    SLAM_CODE_EQUAL = 0x0c,
    SLAM_CODE_LOOP = 0x0d,
    SLAM_CODE_PICK = 0x0e,
    SLAM_CODE_FILL = 0x0f,
    SLAM_CODE_LINE = 0x10,
    SLAM_CODE_OUTPUT = 0x11,
    SLAM_CODE_FIELD = 0x12,
    SLAM_CODE_BODY = 0x13
};

/* The number of an entry that chooses the member of a source in turn. */
enum slam_place {
    SLAM_PLACE_INDEX = 1,    /* its index among the entries of its template */
    SLAM_PLACE_SIBLING = 2,  /* among those of its node below one parent */
    SLAM_PLACE_POSITION = 3, /* in the whole population */
    SLAM_PLACE_FIRST = 4, /* of its first name; with LAST, no combination comes twice */
    SLAM_PLACE_LAST = 5   /* of its last name; numbered once all have been used */
};

/* The caller's; slam_template_create copies what it needs. */
struct slam_template_config {
    const uint8_t *program;
    size_t program_len;
    const struct slam_value_source *sources;
    size_t source_count;
};

struct slam_template; /* read only after slam_template_create; shared by workers */

/* Compiles a request or the text of a variable. feeds opens files and outlives the
 * template (NULL: no source has a file). Control thread only. */
int slam_template_create(const struct slam_template_config *config,
                         struct slam_feeds *feeds, struct slam_template **created,
                         char *err);
void slam_template_destroy(struct slam_template *t);

/* Upper bound of an encoded request, in bytes. */
size_t slam_template_max_pdu(const struct slam_template *t);
/* Upper bound of the template's text, in bytes, or SIZE_MAX if it has TLVs. */
size_t slam_template_max_text(const struct slam_template *t);
/* Variables that the session must have: one more than the highest number used. */
uint32_t slam_template_variable_count(const struct slam_template *t);
size_t slam_template_source_count(const struct slam_template *t);

/* Encodes one request, an LDAPMessage, to out (slam_template_max_pdu bytes). states has
 * an element for each source; message_id is 1..2^31-1. Returns the PDU's length. */
size_t slam_template_encode(const struct slam_template *t,
                            struct slam_partition_cursor *states,
                            const struct slam_draw *draw, int32_t message_id,
                            uint8_t *out);

/* Writes a variable's text (up to slam_template_max_text bytes), returns its length. */
size_t slam_template_text(const struct slam_template *t,
                          struct slam_partition_cursor *states,
                          const struct slam_draw *draw, uint8_t *out);

#endif
