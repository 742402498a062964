# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse

import pytest

from harness.inside.argument_faults import ParserError, parse, parser_errors, repeated


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser()
    serve = top.add_subparsers(dest="command").add_parser("serve")
    serve.add_argument("model")
    serve.add_argument("--port", type=int)
    serve.add_argument("--tensor-parallel-size", "-tp", type=int)
    serve.add_argument("--kind", choices=("a", "b"))
    return top


OPTIONS = ("--port", "--tensor-parallel-size", "-tp", "--kind")


def faults(parser: argparse.ArgumentParser, *words: str) -> list[tuple[str, str]]:
    with parser_errors():
        _, found = parse(words, parser.parse_args, OPTIONS)
    return [(fault["argument"], fault["message"]) for fault in found]


def test_a_right_line_has_no_fault(parser: argparse.ArgumentParser) -> None:
    with parser_errors():
        arguments, found = parse(["serve", "m", "-tp=2"], parser.parse_args, OPTIONS)
    assert found == []
    assert arguments is not None
    assert arguments.tensor_parallel_size == 2


def test_every_fault_is_named(parser: argparse.ArgumentParser) -> None:
    line = ("serve", "m", "--port=x", "--tensor-paralel-size", "2", "--kind=c", "--zzz")
    port, kind, *rest = faults(parser, *line)
    assert port == ("--port", "invalid int value: 'x'")
    assert kind[0] == "--kind"
    assert kind[1].startswith("invalid choice: 'c'")
    assert rest == [
        ("--tensor-paralel-size", "is unknown (did you mean --tensor-parallel-size?)"),
        ("--zzz", "is unknown"),
    ]


def test_an_option_with_two_names_is_left_out_under_both(
    parser: argparse.ArgumentParser,
) -> None:
    found = faults(parser, "serve", "m", "-tp", "x", "--port", "y")
    assert [name for name, _ in found] == ["--tensor-parallel-size/-tp", "--port"]


def test_a_line_that_no_omission_mends_ends(parser: argparse.ArgumentParser) -> None:
    assert faults(parser, "serve") == [
        ("", "the following arguments are required: model")
    ]


def test_parsers_end_the_program_again_afterwards(
    parser: argparse.ArgumentParser,
) -> None:
    with parser_errors(), pytest.raises(ParserError):
        parser.parse_args(["serve"])
    with pytest.raises(SystemExit):
        parser.parse_args(["serve"])


def test_an_option_given_twice_is_told() -> None:
    found = repeated(["--a=1", "--b", "2", "--a", "3"])
    assert [fault["argument"] for fault in found] == ["--a"]
