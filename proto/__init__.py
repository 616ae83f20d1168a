# SPDX-License-Identifier: Apache-2.0
"""The contract between the processes: .proto files and what is read of them."""
