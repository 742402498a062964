# SPDX-License-Identifier: Apache-2.0
"""Hold command lines of vLLM to vLLM's own parser: no model, no device.

Run on the tree in question, in an environment with vLLM. The input is a JSON list of
lines, each with ``name``, ``words`` (what follows ``vllm``) and ``variables`` (the
environment it would run with); the output maps every name to its faults.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from harness.inside.argument_faults import (
    Fault,
    closest,
    parse,
    parser_errors,
    repeated,
)

_OVERRIDES = "--model-class-overrides"
_SPECULATIVE = "--speculative-config"
_MADE_BY_THE_ENGINE = frozenset(
    {
        "target_model_config",
        "target_parallel_config",
        "draft_model_config",
        "draft_parallel_config",
    }
)
"""Fields of SpeculativeConfig that no command line gives."""


def main() -> None:
    """The command line: input and output file."""
    source, target = (Path(word) for word in sys.argv[1:3])
    lines = json.loads(source.read_text(encoding="utf-8"))
    # The parser of `vllm bench` is made only for a line that begins so.
    sys.argv = ["vllm", "bench"]
    checker = Checker()
    with parser_errors():
        found = {
            line["name"]: checker.faults(line["words"], line["variables"])
            for line in lines
        }
    target.write_text(json.dumps(found, indent=1), encoding="utf-8")


class Checker:
    """vLLM's parser of everything, made once."""

    def __init__(self) -> None:
        import vllm.entrypoints.cli.benchmark.main
        import vllm.entrypoints.cli.serve
        from vllm.utils.argparse_utils import FlexibleArgumentParser

        self._parser = FlexibleArgumentParser(prog="vllm")
        commands = self._parser.add_subparsers(dest="subparser")
        self._options: dict[str, list[str]] = {}
        for module in (vllm.entrypoints.cli.serve, vllm.entrypoints.cli.benchmark.main):
            for command in module.cmd_init():
                made = command.subparser_init(commands)
                self._options[command.name] = list(_options(made))

    def faults(self, words: list[str], variables: Mapping[str, str]) -> list[Fault]:
        """All that is wrong with one line."""
        options = self._options[words[0]]
        arguments, faults = parse(words, self._parser.parse_args, options)
        faults = repeated(words) + faults + list(_variable_faults(variables))
        if arguments is None or words[0] != "serve":
            return faults
        if arguments.speculative_config:
            faults += _speculative_faults(arguments.speculative_config)
        faults += _override_faults(arguments.model_class_overrides or {})
        return faults or _engine_faults(arguments)


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _options(below)


def _speculative_faults(given: dict[str, Any]) -> list[Fault]:
    """Keys that SpeculativeConfig lacks, and values that it would refuse.

    Its own check needs the target model; what does not is asked of it piece by piece.
    """
    from pydantic import TypeAdapter, ValidationError
    from vllm.config import SpeculativeConfig

    fields = {
        name: field
        for name, field in SpeculativeConfig.__pydantic_fields__.items()
        if name not in _MADE_BY_THE_ENGINE
    }
    messages = []
    # As EngineArgs.create_speculative_config reads them.
    values = {key.replace("-", "_"): value for key, value in given.items()}
    for key, value in values.items():
        if key not in fields:
            messages.append(f"{key}: is no key of it{closest(key, fields)}")
            continue
        field = fields[key]
        kind: Any = field.annotation
        if field.metadata:
            kind = Annotated[(kind, *field.metadata)]
        try:
            TypeAdapter(kind).validate_python(value)
        except ValidationError as error:
            messages.append(f"{key}: {error.errors()[0]['msg']}, not {value!r}")
    synthetic = values.get("rejection_sample_method") == "synthetic"
    rates = values.get("synthetic_acceptance_rates")
    length = values.get("synthetic_acceptance_length")
    if not messages and synthetic:
        number = values.get("num_speculative_tokens", 0)
        try:
            SpeculativeConfig._resolve_synthetic_acceptance_rates(number, rates, length)
        except ValueError as error:
            messages.append(str(error))
    elif not messages and (rates, length) != (None, None):
        messages.append(
            "synthetic acceptance without rejection_sample_method synthetic"
        )
    return [{"argument": _SPECULATIVE, "message": text} for text in messages]


def _override_faults(overrides: Mapping[str, str]) -> list[Fault]:
    """Architectures that vLLM does not know, and classes that its files lack."""
    from vllm.model_executor.models import ModelRegistry

    known = ModelRegistry.get_supported_archs()
    messages = []
    for name, target in overrides.items():
        if name not in known:
            messages.append(f"{name}: no such architecture{closest(name, known)}")
        if not _defined(target):
            messages.append(f"{name}: {target} is no class of this tree")
    return [{"argument": _OVERRIDES, "message": text} for text in messages]


def _defined(target: str) -> bool:
    """Whether ``module:class`` is in a file; a GPU's modules can't be imported."""
    import vllm

    module, _, name = target.partition(":")
    file = Path(vllm.__file__).parent.parent / f"{module.replace('.', '/')}.py"
    if not file.is_file():
        return False
    body = ast.parse(file.read_text(encoding="utf-8")).body
    return any(isinstance(node, ast.ClassDef) and node.name == name for node in body)


def _variable_faults(variables: Mapping[str, str]) -> Iterator[Fault]:
    """Variables for vLLM that nothing in it reads, or whose value it can't read."""
    from vllm import envs

    for name, value in variables.items():
        if not name.startswith("VLLM_"):
            continue
        if name not in envs.environment_variables:
            if not _mentioned(name):
                near = closest(name, envs.environment_variables)
                yield {"argument": name, "message": f"no such variable{near}"}
            continue
        before = os.environ.get(name)
        os.environ[name] = value
        try:
            envs.environment_variables[name]()
        except (ValueError, TypeError) as error:
            yield {"argument": name, "message": " ".join(str(error).split())}
        finally:
            if before is None:
                del os.environ[name]
            else:
                os.environ[name] = before


def _mentioned(name: str) -> bool:
    """Whether any file of vLLM has the word: some variables are read in place."""
    import vllm

    word = re.compile(rb"\b" + name.encode() + rb"\b")
    files = Path(vllm.__file__).parent.rglob("*.py")
    return any(word.search(file.read_bytes()) for file in files)


def _engine_faults(arguments: argparse.Namespace) -> list[Fault]:
    """What vLLM itself refuses of arguments that parse."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.openai.cli_args import validate_parsed_serve_args

    try:
        validate_parsed_serve_args(arguments)
        AsyncEngineArgs.from_cli_args(arguments)
    except (ValueError, TypeError, AssertionError) as error:
        return [{"argument": "", "message": " ".join(str(error).split())}]
    return []


if __name__ == "__main__":
    main()
