# SPDX-License-Identifier: Apache-2.0
"""The jobs that use several tools in a row: apply, verify, report."""
