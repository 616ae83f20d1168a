# SPDX-License-Identifier: Apache-2.0
"""Certificates: who somebody is, and the authority that says so.

`certificate` reads and builds them, `revocation` knows the revoked ones, `authority` is
the folder of a fleet's own authority, `token` what an agent joins with. No gRPC here.
"""
