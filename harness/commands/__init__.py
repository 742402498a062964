# SPDX-License-Identifier: Apache-2.0
"""One module per command, named as typed: arguments in, exit code out."""
