# SPDX-License-Identifier: Apache-2.0
"""Measurements: accuracy, serving, acceptance. Each returns plain facts."""
