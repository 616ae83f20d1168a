# SPDX-License-Identifier: Apache-2.0
"""How property tests run: without deadlines, which a busy machine would break."""

from hypothesis import settings

settings.register_profile("ldapslam", deadline=None, print_blob=True)
settings.load_profile("ldapslam")
