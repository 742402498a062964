# SPDX-License-Identifier: Apache-2.0
"""The patch half: mail form, export, lint, applying to trees."""
