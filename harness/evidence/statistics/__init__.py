# SPDX-License-Identifier: Apache-2.0
"""Pure functions from numbers to numbers: no process, no file, no verdict.

``proportions``: the same questions before and after. ``blocks``: pairs of server
starts. ``multiplicity``: several tests at once. ``acceptance``: accepted draft tokens,
clustered by request. ``logprobs``: greedy log-probabilities. Each docstring names the
source of its formula; scipy does the distributions, the root finding and the
permutations.
"""
