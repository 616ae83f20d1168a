/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the plan (jobs/plan.py, jobs/scripts.py). A row's name is the
 * attribute's and mostly the member's. */
#ifndef SLAM_PYTHON_SETTINGS_H
#define SLAM_PYTHON_SETTINGS_H

#include "load/engine.h"
#include "python/reader.h"

extern const struct slam_py_row slam_py_run_rows[];    /* struct slam_engine_config */
extern const struct slam_py_row slam_py_stream_rows[]; /* struct slam_stream_settings */
extern const struct slam_py_row slam_py_value_row[];   /* an element of an array */
extern const struct slam_py_row slam_py_template_rows[]; /* slam_template_config */

#endif
