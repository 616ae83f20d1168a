# SPDX-License-Identifier: Apache-2.0
"""Reports of runs: the summary, the verdict, and the documents made of them.

`summarise` computes every statistic once; `rules` judges; `formats` writes the same
Summary as HTML, PDF, text, JSON, CSV and HdrHistogram log.
"""
