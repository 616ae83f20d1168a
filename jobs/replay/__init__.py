# SPDX-License-Identifier: Apache-2.0
"""Logs of directories as load: read, analysed, and replayed.

read (openldap, ds389) -> log -> shapes, analysis -> statistical_job
                              -> requests, trace -> prepare
"""
