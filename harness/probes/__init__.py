# SPDX-License-Identifier: Apache-2.0
"""Exact facts from the real model code, and the claims they are held to."""
