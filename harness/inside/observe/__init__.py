# SPDX-License-Identifier: Apache-2.0
"""Observers: what the code under test does, seen from outside, without editing it."""
