# SPDX-License-Identifier: Apache-2.0
"""The reference model: a small DeepSeek-V3 with an MTP layer, trained from nothing.

Runs in the measured environment (torch, tokenizers, safetensors). ``problems`` needs
the standard library alone.
"""
