# SPDX-License-Identifier: Apache-2.0
"""From facts to verdicts: comparison, statistics. Knows no process and no git."""
