# SPDX-License-Identifier: Apache-2.0
"""The job type that times an offline import into a temporary server."""
