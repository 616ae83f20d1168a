/* SPDX-License-Identifier: Apache-2.0 */
/* A compiled program (compile.c) and its machine (run.c), for templates and ldif/
 * alone. */
#ifndef SLAM_PROGRAM_H
#define SLAM_PROGRAM_H

#include "template/template.h"

#include <stdbool.h>

#define SLAM_PROGRAM_SLOTS_MAX 4096u          /* of an entry */
#define SLAM_PROGRAM_LINE_MAX (4u << 20)      /* longest line, in bytes */
#define SLAM_PROGRAM_SLOTS_LEN_MAX (4u << 20) /* all slots of an entry, in bytes */
/* What stands before a request's text: a SEQUENCE's header, the messageID. */
#define SLAM_PROGRAM_ENVELOPE_MAX 11u
#define SLAM_PLACES (SLAM_PLACE_LAST + 1)

/* Codes that the compiler makes besides slam_template_code. */
#define SLAM_CODE_END_OF(code)                                                         \
    (0x80 | (code)) /* TLV, BASE64, loops, FILL, LINE, OUTPUT */

struct instruction {
    uint8_t code;
    uint8_t variant; /* TLV: tag; SLOT: form; IF: wanted; PLACED: place; LINE: all of
                      * its text is printable ASCII; OUTPUT: which one */
    uint8_t level;   /* SLOT */
    uint8_t header;  /* TLV: bytes that are kept free for tag and length */
    uint16_t index;  /* of a source, a slot, a variable, a loop */
    uint32_t peer; /* CHANCE, IF, EQUAL, LOOP: the last instruction of the part; end of
                    * a loop: its beginning */
    uint32_t offset; /* LITERAL, LINE, EQUAL: of bytes in literals */
    uint32_t len;    /* their number; SLOT: the limit; CHANCE: ppm; FIELD: the
                      * number; TLV: the fewest bytes of content */
    uint32_t room;   /* LINE, OUTPUT: the most bytes that it may write */
};

struct program_loop {
    uint64_t lo; /* LOOP: first number; PICK: how many there are to pick from */
    uint64_t least;
    uint64_t most; /* turns */
};

struct program_slot {
    uint32_t offset; /* in the texts of a frame */
    uint32_t cap;
    bool is_plain;
    bool is_filled;
};

struct slam_program {
    struct instruction *instructions;
    uint32_t count;
    uint32_t body; /* where BODY is; of a request 0 */
    uint8_t *literals;
    struct program_loop *loops;
    struct program_slot *slots;
    uint32_t loop_count;
    uint32_t slot_count;
    uint32_t slots_len;
    uint32_t variable_count;
    uint8_t header; /* bytes that are kept free for the header of a request */
    bool has_tlvs;
    bool has_names; /* PLACED at FIRST or LAST */
    size_t max_len; /* of a request, with its envelope */
    const struct slam_value_source *sources;
};

struct program_context {
    const struct slam_value_source *sources; /* prepared; they outlive the program */
    size_t source_count;
    /* Of an entry; in a request NULL: */
    const bool *source_is_plain;
    const struct slam_program *const *above; /* its ancestors' programs: parent first */
    uint32_t depth;
    uint32_t first_names; /* the sources of names */
    uint32_t last_names;
    uint32_t output_count;
    size_t *max_room; /* of each output's lines: is raised */
};

/* On failure *fault and *offset say what is wrong and where; release p either way. */
int slam_program_compile(struct slam_program *p, const struct program_context *context,
                         const uint8_t *bytes, size_t len, const char **fault,
                         size_t *offset);
void slam_program_release(struct slam_program *p);

struct slam_template {
    struct slam_program program;
    struct slam_value_source *sources;
    size_t source_count;
};

struct program_frame {
    const struct slam_program *program;
    uint8_t *texts;
    uint32_t *lens;
};

struct program_output {
    uint8_t *bytes;
    size_t len;
    size_t cap;
};

struct machine {
    const struct slam_draw *draw;
    struct slam_partition_cursor *states; /* of a request's sources */
    /* Of an entry: */
    struct program_frame *frame; /* those above it lie before it */
    uint64_t key;                /* what its fields are drawn from */
    uint64_t numbers[SLAM_PLACES];
    uint64_t names_round; /* above 0: behind the last name */
    struct program_output *outputs;
    /* Empties an output that has no room; a result but 0 ends the run. */
    int (*flush)(void *context, uint32_t output);
    void *context;
    int rc; /* what flush returned */
};

/* Runs a program, an entry's as far as BODY unless is_whole. Returns the text's end. */
uint8_t *slam_program_run(struct machine *m, const struct slam_program *p,
                          bool is_whole, uint8_t *at);

#endif
