# SPDX-License-Identifier: Apache-2.0
"""Code that is imported by the measured processes, in the measured environment.

It may import the standard library and what that environment is made for (torch and
vllm, or lm-eval), and nothing else of the harness.
"""
