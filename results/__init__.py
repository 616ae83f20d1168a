# SPDX-License-Identifier: Apache-2.0
"""The results store: what agents measured, interval by interval.

The coordinator writes it, the reports read it. Nothing here knows how results are
shown: `records` are the values, `schema` the tables, `store` the access,
`histogram` the arithmetic on packed histograms.
"""
