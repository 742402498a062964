# SPDX-License-Identifier: Apache-2.0
"""Where trees come from: git, source archive; worktrees of a state."""
