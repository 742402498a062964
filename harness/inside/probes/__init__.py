# SPDX-License-Identifier: Apache-2.0
"""Probes: exact facts about the real model code of one tree.

A probe is a module with two functions:

``warm()``
    Imports what its scenarios need (torch, vLLM, the classes under test). Called once
    in the process that later forks a child per rank, so that a tree's 10 s of import
    are paid once. It must start no threads and build no groups.

``run(context)``
    Runs one scenario as one rank and records facts through
    :class:`harness.inside.probes.context.Context`.

Nothing here edits the tree under test. What a CPU can't do is replaced by a named
:class:`harness.inside.standins.StandIn`, and the result lists the active ones.
"""
