# SPDX-License-Identifier: Apache-2.0
"""What a release makes of each patch: applies, merged, conflicts, not affected."""
