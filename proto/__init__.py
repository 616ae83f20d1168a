# SPDX-License-Identifier: Apache-2.0
"""The contract between the processes: .proto files and the code generated from them."""
