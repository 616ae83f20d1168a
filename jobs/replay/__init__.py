# SPDX-License-Identifier: Apache-2.0
"""Logs of directories as load: read, made into statistical loads, and sent as traces.

read (openldap, ds389) -> log -> statistical_job
                              -> trace -> prepare
"""
