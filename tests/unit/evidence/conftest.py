# SPDX-License-Identifier: Apache-2.0
"""Property tests that give the same result on every run, in seconds."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("evidence", max_examples=30, deadline=None, derandomize=True)
settings.load_profile("evidence")
