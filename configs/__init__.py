# SPDX-License-Identifier: Apache-2.0
"""Ready jobs and sample settings: files only, found by importlib.resources."""
