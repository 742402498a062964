# SPDX-License-Identifier: Apache-2.0
"""Results as a reader wants them: Markdown from the data models."""
