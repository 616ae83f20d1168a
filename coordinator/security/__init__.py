# SPDX-License-Identifier: Apache-2.0
"""Who may call what: roles, certificates, the audit log, one coordinator per store."""
