# SPDX-License-Identifier: Apache-2.0
"""The commands about job files: new ones, examples, their checks and schemas."""
