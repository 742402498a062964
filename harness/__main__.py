# SPDX-License-Identifier: Apache-2.0
"""``python -m harness``."""

from harness.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
