# SPDX-License-Identifier: Apache-2.0
"""What happened in a run: the results store below, the report above it.

`results` stores; `summary` computes every figure once; `verdict` judges; `render`
writes the same Summary as HTML, PDF, text, JSON, CSV and HdrHistogram log.
"""
