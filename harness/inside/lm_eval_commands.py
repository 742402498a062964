# SPDX-License-Identifier: Apache-2.0
"""Hold command lines of lm-eval to lm-eval's own parser and its index of tasks.

Run in lm-eval's environment. The input is a JSON list of lines, each with ``name``,
``words`` (what follows ``lm_eval``) and ``score`` (the filter that is read); the output
maps every name to its faults. Nothing is asked, and no data is loaded.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from harness.inside.argument_faults import (
    Fault,
    closest,
    parse,
    parser_errors,
    repeated,
)


def main() -> None:
    """The command line: input and output file."""
    source, target = (Path(word) for word in sys.argv[1:3])
    lines = json.loads(source.read_text(encoding="utf-8"))
    checker = Checker()
    with parser_errors():
        found = {
            line["name"]: checker.faults(line["words"], line["score"]) for line in lines
        }
    target.write_text(json.dumps(found, indent=1), encoding="utf-8")


class Checker:
    """lm-eval's parser, and one index for each folder of tasks."""

    def __init__(self) -> None:
        from lm_eval._cli import HarnessCLI

        self._cli = HarnessCLI()
        run = self._cli._subparsers.choices["run"]
        self._options = [o for action in run._actions for o in action.option_strings]
        self._indexes: dict[str, Any] = {}

    def faults(self, words: list[str], score: str) -> list[Fault]:
        """All that is wrong with one line."""
        arguments, faults = parse(words, self._parse, self._options)
        faults = repeated(words) + faults
        if arguments is None or faults:
            return faults
        import lm_eval.models  # noqa: F401  registers them
        from lm_eval.api.registry import model_registry
        from lm_eval.config.evaluate_config import EvaluatorConfig

        try:
            config = EvaluatorConfig.from_cli(arguments)
        except (ValueError, TypeError) as error:
            return [{"argument": "", "message": " ".join(str(error).split())}]
        if config.model not in model_registry:
            near = closest(config.model, model_registry)
            faults.append(
                {"argument": "--model", "message": f"no model {config.model}{near}"}
            )
        return faults + self._task_faults(config, score)

    def _parse(self, words: list[str]) -> argparse.Namespace:
        sys.argv = ["lm_eval", *words]
        arguments: argparse.Namespace = self._cli.parse_args()
        return arguments

    def _task_faults(self, config: Any, score: str) -> list[Fault]:
        from lm_eval.tasks._yaml_loader import load_yaml

        index = self._index(config.include_path)
        faults: list[Fault] = []
        for task in config.tasks:
            if not index.match_tasks([task]):
                near = closest(task, index.all_tasks)
                faults.append(
                    {"argument": "--tasks", "message": f"no task {task}{near}"}
                )
                continue
            described = load_yaml(index._index[task].yaml_path, resolve_func=False)
            filters = [one["name"] for one in described.get("filter_list", ())]
            if score not in filters:
                text = f"{task} has no filter {score}{closest(score, filters)}"
                faults.append({"argument": "score", "message": text})
        return faults

    def _index(self, folder: str) -> Any:
        from lm_eval.tasks import TaskManager

        if folder not in self._indexes:
            self._indexes[folder] = TaskManager(
                include_path=folder, include_defaults=False
            )
        return self._indexes[folder]


if __name__ == "__main__":
    main()
