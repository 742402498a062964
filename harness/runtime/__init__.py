# SPDX-License-Identifier: Apache-2.0
"""Environments, the overlay that runs a tree, the life of a server."""
