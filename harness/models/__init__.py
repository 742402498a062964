# SPDX-License-Identifier: Apache-2.0
"""Plain, validated data: what the files in configs/, patches/ and results/ hold."""
