# SPDX-License-Identifier: Apache-2.0
"""The series carried to another release: ``patches/<tag>/``."""
