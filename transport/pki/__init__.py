# SPDX-License-Identifier: Apache-2.0
"""Certificates: who somebody is, and the authority that says so. No gRPC here."""
