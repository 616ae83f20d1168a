/* SPDX-License-Identifier: Apache-2.0 */
/* Python's sequences as arrays of C, which the caller frees with PyMem_Free. NULL
 * stands for a failure, with an exception set. */
#ifndef SLAM_PYTHON_SETTINGS_H
#define SLAM_PYTHON_SETTINGS_H

#include "load/pacer.h"
#include "python/module.h"

#include <stddef.h>
#include <stdint.h>

/* The index of a name in a table that ends with NULL; -1 with ValueError set. */
int slam_py_choice(const char *what, const char *name, const char *const *names);

uint64_t *slam_py_u64_array(PyObject *sequence, Py_ssize_t *count);

/* Texts, borrowed from `keep`, a list that the caller releases after use. */
const char **slam_py_text_array(PyObject *sequence, size_t *count, PyObject **keep);

/* A rate profile. */
struct slam_rate_segment *slam_py_segment_array(PyObject *sequence, size_t *count);

/* The sequence as a tuple in *keep and a zeroed table of as many elements. An absent
 * sequence is an empty one. */
void *slam_py_table(PyObject *sequence, size_t size, PyObject **keep, size_t *count);

#endif
