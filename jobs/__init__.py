# SPDX-License-Identifier: Apache-2.0
"""What a run should do: the job file, its model, and what follows from it.

Pure data and arithmetic, the leaf of the import graph. load.py reads a job, model.py
says what it may hold, plan.py what each agent then has to do.
"""
