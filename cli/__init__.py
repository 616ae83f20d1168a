# SPDX-License-Identifier: Apache-2.0
"""`ldapslam`, the one command: the only package that may import all others.

Results go to stdout, everything for people to stderr. A command returns an ExitCode or
raises an LdapSlamError; main.py turns both into what the shell sees.
"""
