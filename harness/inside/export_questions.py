# SPDX-License-Identifier: Apache-2.0
"""Write a question set of the hub as the JSON lines it was published as.

Run in lm-eval's environment. Key order and escapes are those of the published files,
so the same rows give the same bytes, and a checksum can tell.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--path", required=True, help="the set's id on the hub")
    parser.add_argument("--config", help="the set's configuration")
    parser.add_argument("--files", help="read these files instead of the hub")
    parser.add_argument("--out", type=Path, required=True, help="an existing folder")
    arguments = parser.parse_args()

    import datasets

    for split in ("test", "train"):
        files = None
        if arguments.files:
            files = {split: str(Path(arguments.files) / f"{split}.jsonl")}
        rows = datasets.load_dataset(
            arguments.path, arguments.config, data_files=files, split=split
        )
        kept = [{"question": r["question"], "answer": r["answer"]} for r in rows]
        text = "".join(json.dumps(row) + "\n" for row in kept)
        (arguments.out / f"{split}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
