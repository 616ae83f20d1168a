# SPDX-License-Identifier: Apache-2.0
"""From YAML text to a checked job, with the position of each fault."""
