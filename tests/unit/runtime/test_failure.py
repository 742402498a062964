# SPDX-License-Identifier: Apache-2.0
"""Reading the cause of a server's end from logs as vLLM writes them."""

from __future__ import annotations

from pathlib import Path

from harness.runtime.failure import Cause, diagnose, read_log

ENGINE = "(EngineCore pid=15) ERROR 11-29 15:58:39 [core.py:1209] "
API = "(APIServer pid=12) "


def lines_of(tmp_path: Path, text: str) -> list[str]:
    log = tmp_path / "server.log"
    log.write_text(text)
    return read_log(log)


def test_the_engines_exception_is_the_cause_and_not_the_servers(
    tmp_path: Path,
) -> None:
    lines = lines_of(
        tmp_path,
        f"{ENGINE}EngineCore failed to start.\n"
        f"{ENGINE}Traceback (most recent call last):\n"
        f'{ENGINE}  File "/tree/vllm/v1/engine/core.py", line 1183, in run\n'
        f"{ENGINE}    engine = Core()\n"
        f'{ENGINE}  File "/tree/vllm/models/x.py", line 42, in __init__\n'
        f"{ENGINE}    self.buffer[0]\n"
        f"{ENGINE}TypeError: 'NoneType' object is not subscriptable\n"
        f"{API}Traceback (most recent call last):\n"
        f'{API}  File "/tree/vllm/entrypoints/main.py", line 9, in main\n'
        f"{API}RuntimeError: Engine core initialization failed. See above.\n",
    )
    found = diagnose(1, lines)
    assert (found.cause, found.file, found.line) == (
        Cause.EXCEPTION,
        "/tree/vllm/models/x.py",
        42,
    )
    assert found.text.startswith("TypeError: 'NoneType' object is not subscriptable")


def test_a_worker_s_exception_is_the_cause_and_not_the_engine_s(tmp_path: Path) -> None:
    lines = lines_of(
        tmp_path,
        f"{ENGINE}Traceback (most recent call last):\n"
        f'{ENGINE}  File "/tree/vllm/v1/executor.py", line 394, in result\n'
        f"{ENGINE}RuntimeError: Worker failed with error 'Not this', see below\n"
        f"{ENGINE}Traceback (most recent call last):\n"
        f'{ENGINE}  File "/tree/vllm/models/x.py", line 42, in forward\n'
        f"{ENGINE}torch._dynamo.exc.Unsupported: Not this\n",
    )
    found = diagnose(1, lines)
    assert (found.file, found.line) == ("/tree/vllm/models/x.py", 42)


def test_a_syntax_error_in_a_subprocess_is_found_below_its_wrappers(
    tmp_path: Path,
) -> None:
    lines = lines_of(
        tmp_path,
        "Traceback (most recent call last):\n"
        '  File "/usr/lib/subprocess.py", line 571, in run\n'
        "subprocess.CalledProcessError: Command died\n"
        "Traceback (most recent call last):\n"
        '  File "/tree/vllm/registry.py", line 5, in inspect\n'
        "RuntimeError: Error raised in subprocess:\n"
        "Traceback (most recent call last):\n"
        '  File "/tree/vllm/registry.py", line 50, in load\n'
        '  File "/tree/vllm/models/mtp.py", line 88\n'
        "    def broken(:\n"
        "               ^\n"
        "SyntaxError: invalid syntax\n",
    )
    found = diagnose(1, lines)
    assert (found.cause, found.file, found.line) == (
        Cause.SYNTAX,
        "/tree/vllm/models/mtp.py",
        88,
    )


def test_a_warning_with_memory_in_it_does_not_hide_an_exception() -> None:
    lines = [
        "lower it if you run out of memory",
        '  File "/tree/a.py", line 1, in f',
        "ModuleNotFoundError: No module named 'x'",
    ]
    assert diagnose(1, lines).cause is Cause.IMPORT


def test_an_exception_for_lack_of_memory_is_a_lack_of_memory() -> None:
    lines = [
        '  File "/tree/a.py", line 1, in f',
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
    ]
    assert diagnose(1, lines).cause is Cause.MEMORY


def test_without_a_word_in_the_log_the_status_speaks() -> None:
    assert diagnose(-9, ["INFO fine"]).text.startswith("was killed by SIGKILL (not by")
    assert diagnose(3, []).text == "ended with status 3"
