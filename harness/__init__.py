# SPDX-License-Identifier: Apache-2.0
"""Carries a patch series for vLLM and measures what each patch does."""
