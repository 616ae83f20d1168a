/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLAM_PYTHON_SNAPSHOT_H
#define SLAM_PYTHON_SNAPSHOT_H

#include "load/engine.h"
#include "python/module.h"

PyObject *slam_py_snapshot(const struct slam_engine *engine,
                           const struct slam_snapshot *s, uint64_t index);

#endif
