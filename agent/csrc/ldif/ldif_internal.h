/* SPDX-License-Identifier: Apache-2.0 */
/* A compiled population, shared by ldif.c (the tree, the threads), ldif_program.c
 * (which compiles), ldif_render.c (which runs programs) and ldif_output.c (which
 * writes) alone. */
#ifndef SLAM_LDIF_INTERNAL_H
#define SLAM_LDIF_INTERNAL_H

#include "ldif/ldif.h"

#include <stdatomic.h>

#define LDIF_STOPPED 1 /* what ends a rendering whose result nobody wants */

enum ldif_opcode {
    LDIF_LITERAL = 0x01,
    LDIF_VALUE = 0x02,
    LDIF_SLOT = 0x03,
    LDIF_NUMBER = 0x04,
    LDIF_BASE64 = 0x05,
    LDIF_FILL = 0x06,
    LDIF_LINE = 0x07,
    LDIF_OUTPUT = 0x08,
    LDIF_IF = 0x09,
    LDIF_EQUAL = 0x0a,
    LDIF_LOOP = 0x0b,
    LDIF_PICK = 0x0c,
    LDIF_CHANCE = 0x0d,
    LDIF_SET = 0x0e,
    LDIF_FIELD = 0x0f,
    LDIF_BODY = 0x10,
    LDIF_END = 0x11
};

struct ldif_instruction {
    uint8_t code;    /* an enum ldif_opcode */
    uint8_t variant; /* VALUE: place; SLOT: form; IF: wanted; LINE: every text of it is
                      * made of ASCII characters that need no base64; OUTPUT: which */
    uint8_t level;   /* SLOT */
    uint16_t index;  /* of a source, a slot or a flag */
    uint32_t limit;  /* SLOT: bytes; CHANCE: ppm; FIELD: its number */
    uint32_t offset; /* LITERAL, LINE, EQUAL: bytes in literals */
    uint32_t len;
    uint32_t peer; /* the END of what begins here, or the beginning of what ends here */
    size_t room;   /* LINE, OUTPUT, BASE64, SLOT: the most bytes that it may write */
    uint64_t lo;   /* LOOP: first number; PICK: how many there are to pick from */
    uint64_t least; /* LOOP, PICK: turns */
    uint64_t most;
};

struct ldif_slot {
    uint32_t offset; /* in the texts of a frame */
    uint32_t cap;
    bool is_plain; /* see ldif_instruction.variant of LINE */
    bool is_filled;
};

struct ldif_node {
    uint32_t parent;
    uint32_t depth; /* 0: a root */
    uint64_t count;
    uint64_t first_index;
    uint64_t first_name;
    uint64_t seed;
    uint64_t size;        /* entries of one subtree */
    uint64_t offset;      /* where its entries begin among those below one parent */
    uint32_t first_child; /* in slam_ldif.children */
    uint32_t child_count;
    struct ldif_instruction *instructions;
    size_t instruction_count;
    uint8_t *literals;
    struct ldif_slot *slots;
    uint32_t slot_count;
    uint32_t slots_len;
    uint32_t flag_count;
};

/* The numbers below n in an order that looks random, each once. */
struct ldif_shuffle {
    uint64_t n;
    uint64_t key;
    uint32_t low_bits; /* of a number, the rest are its high bits */
    uint32_t high_bits;
};

struct ldif_tree {
    struct ldif_node *nodes;
    uint32_t node_count;
    uint32_t *children; /* indices of nodes: first the roots, then node by node */
    uint32_t root_count;
    uint64_t total; /* entries */
    struct slam_value_source *sources;
    bool *source_is_plain;
    uint32_t source_count;
    uint32_t first_names;
    uint32_t last_names;
    struct ldif_shuffle names;
    uint32_t output_count;
    size_t max_room[SLAM_LDIF_OUTPUTS_MAX]; /* of a line */
};

/* An entry: where it is, and what was drawn for it. */
struct ldif_frame {
    uint32_t node;    /* UINT32_MAX: none */
    uint64_t ordinal; /* among those of its node */
    uint64_t sibling;
    uint64_t position;
    uint8_t *texts;
    uint32_t *lens; /* of the slots */
    uint8_t *flags;
};

/* Where an output's text goes. flush makes room for what is still to be written: the
 * buffer is empty after it. */
struct ldif_buffer {
    uint8_t *bytes;
    size_t len;
    size_t cap;
};

/* What one thread renders with. */
struct ldif_renderer {
    const struct ldif_tree *tree;
    struct slam_rng rng;
    struct ldif_frame frames[SLAM_LDIF_DEPTH_MAX];
    struct ldif_buffer outputs[SLAM_LDIF_OUTPUTS_MAX];
    uint64_t number; /* of the loop */
    /* Called with context when an output has no room; 0, or the rendering ends. */
    int (*flush)(void *context, uint32_t output);
    void *context;
};

/* Compiles the program of tree->nodes[index], whose ancestors are compiled. Returns as
 * slam_ldif_create. */
int ldif_compile(struct ldif_tree *tree, uint32_t index, const uint8_t *program,
                 size_t program_len, char *err, size_t err_len);

/* Printable ASCII only: needs no base64 but for a blank, ':' or '<' at its ends. */
bool ldif_is_plain(const uint8_t *text, size_t len);
/* Whether all texts of a prepared source are. */
bool ldif_source_is_plain(const struct slam_value_source *source);

/* A shuffle of n >= 1 numbers, chosen by rng. */
struct ldif_shuffle ldif_shuffle_draw(struct slam_rng *rng, uint64_t n);
uint64_t ldif_shuffle_member(const struct ldif_shuffle *shuffle, uint64_t i);

/* Writes the text between an instruction and its END, which is at most as long as
 * compiled. Returns its end. */
uint8_t *ldif_put_text(struct ldif_renderer *renderer, const struct ldif_frame *frame,
                       const struct ldif_node *node,
                       const struct ldif_instruction *opened, uint8_t *at);

/* Turns the text [at, at + len) into base64 that begins at `at` + shift, shift <= 1.
 * Returns its end. */
uint8_t *ldif_encode_in_place(uint8_t *at, size_t len, size_t shift);

/* Buffers and frames for a tree. Returns 0 or SLAM_ENOMEM; to be released either way.
 */
int ldif_renderer_init(struct ldif_renderer *renderer, const struct ldif_tree *tree);
void ldif_renderer_release(struct ldif_renderer *renderer);

/* Renders the entries from `first` to `end`, exclusively, to the buffers. Returns 0 or
 * what flush returned. */
int ldif_render(struct ldif_renderer *renderer, uint64_t first, uint64_t end);

/* Writes all bytes, or those before *is_stopping while a reader lets it wait. Returns
 * 0, LDIF_STOPPED or a negative errno. */
int ldif_write(int fd, const uint8_t *bytes, size_t len,
               const _Atomic bool *is_stopping);

#endif
