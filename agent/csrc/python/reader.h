/* SPDX-License-Identifier: Apache-2.0 */
/* Reads Python's settings into structs, by tables: a row for each field. A struct is
 * read from an object's attributes, or from a tuple's items in the order of the
 * rows. */
#ifndef SLAM_PYTHON_READER_H
#define SLAM_PYTHON_READER_H

#include "python/objects.h"

#include <stddef.h>

enum slam_py_kind {
    SLAM_PY_BOOL,
    SLAM_PY_UNSIGNED, /* of 1, 4 or 8 bytes */
    SLAM_PY_SIGNED,   /* of 4 or 8 bytes */
    SLAM_PY_DOUBLE,
    SLAM_PY_TEXT,     /* const char *; None: NULL */
    SLAM_PY_BYTES,    /* const char * or const uint8_t *, and a length; None: NULL */
    SLAM_PY_CHOICE,   /* one of `choices`: its index, as an unsigned integer */
    SLAM_PY_VARIABLE, /* uint32_t; SLAM_NO_VARIABLE for a negative number */
    SLAM_PY_STRUCT,   /* `rows` has its fields; None: as it is, without variables */
    SLAM_PY_ARRAY     /* pointer to const elements, and a length; `rows` has one row */
};

struct slam_py_row {
    const char *name; /* NULL: the table's end */
    enum slam_py_kind kind;
    size_t offset;
    size_t size;                /* of the member */
    size_t length;              /* offset of the length, a size_t */
    const char *const *choices; /* ends with NULL */
    const struct slam_py_row *rows;
};

/* A row of struct `type` whose member has the Python name; the rest as designated
 * initialisers. */
#define SLAM_PY_ROW(type, kind_, member, ...)                                          \
    SLAM_PY_NAMED_ROW(type, #member, kind_, member, __VA_ARGS__)
#define SLAM_PY_NAMED_ROW(type, name_, kind_, member, ...)                             \
    {.name = name_,                                                                    \
     .kind = SLAM_PY_##kind_,                                                          \
     .offset = offsetof(type, member),                                                 \
     .size = sizeof(((type *)0)->member),                                              \
     __VA_ARGS__}
#define SLAM_PY_ELEMENT(type, kind_, ...)                                              \
    {.name = "", .kind = SLAM_PY_##kind_, .size = sizeof(type), __VA_ARGS__}

/* Reads all rows into the struct at `to`; what it points to lives as long as the list
 * `keep`. Returns 0, or -1 with an exception that names the field. */
int slam_py_read(const struct slam_py_row *rows, PyObject *object, void *to,
                 PyObject *keep);

int slam_py_read_array(const struct slam_py_row *element, PyObject *sequence,
                       const void **to, size_t *length, PyObject *keep);

#endif
