# SPDX-License-Identifier: Apache-2.0
"""Environments: made once, whole or absent, refused when they are the wrong ones."""

from __future__ import annotations

import shutil
import sys
import zipfile
from base64 import urlsafe_b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from harness.errors import InfrastructureError, UsageError
from harness.paths import Project
from harness.runtime import environment
from harness.runtime.environment import adopt, ensure

said: list[str] = []


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with one lock, of a wheel that is a file: no index is asked."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_OFFLINE", "1")
    wheel = make_wheel(tmp_path, "sample", "1.2")
    digest = sha256(wheel.read_bytes()).hexdigest()
    requirements = tmp_path / "project" / "configs" / "requirements"
    requirements.mkdir(parents=True)
    (requirements / "sample.txt").write_text(
        f"sample @ {wheel.as_uri()} --hash=sha256:{digest}\n"
    )
    said.clear()
    return Project(tmp_path / "project")


def make_wheel(folder: Path, name: str, version: str) -> Path:
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    contents = {
        f"{name}/__init__.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\n"
        f"Version: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{file},sha256={_digest(text)},{len(text)}\n"
        for file, text in contents.items()
    )
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in contents.items():
            archive.writestr(file, text)
        archive.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return path


def _digest(text: str) -> str:
    return urlsafe_b64encode(sha256(text.encode()).digest()).rstrip(b"=").decode()


def test_an_environment_is_made_once_and_reused(project: Project) -> None:
    first = ensure(project, "sample", progress=said.append)
    assert first.packages == {"sample": "1.2"}
    assert first.python.is_file()
    assert len(said) == 2
    assert ensure(project, "sample", progress=said.append) == first
    assert len(said) == 2


def test_another_lock_is_another_environment(project: Project) -> None:
    first = ensure(project, "sample", progress=said.append)
    lock = project.requirements / "sample.txt"
    lock.write_text("# changed\n" + lock.read_text())
    assert ensure(project, "sample", progress=said.append).python != first.python


def test_what_a_kill_left_is_not_taken_for_complete(project: Project) -> None:
    first = ensure(project, "sample", progress=said.append)
    folder = first.python.parent.parent
    (folder / "harness-environment.json").unlink()
    shutil.rmtree(first.site_packages / "sample")
    again = ensure(project, "sample", progress=said.append)
    assert (again.site_packages / "sample" / "__init__.py").is_file()
    assert len(said) == 4


def test_an_environment_whose_interpreter_vanished_is_made_anew(
    project: Project,
) -> None:
    first = ensure(project, "sample", progress=said.append)
    first.python.unlink()
    first.python.symlink_to("/nowhere/python")
    assert ensure(project, "sample", progress=said.append).python.resolve().is_file()


def test_a_wrong_hash_names_the_lock_and_uvs_reason(project: Project) -> None:
    lock = project.requirements / "sample.txt"
    lock.write_text(lock.read_text().rpartition(":")[0] + ":" + "0" * 64 + "\n")
    with pytest.raises(InfrastructureError) as caught:
        ensure(project, "sample", progress=said.append)
    line = caught.value.line()
    assert line.startswith(f"{lock}: uv pip failed: ")
    assert "Hash mismatch" in line
    with pytest.raises(InfrastructureError):
        ensure(project, "sample", progress=said.append)


def test_an_unknown_lock_is_bad_usage(project: Project) -> None:
    with pytest.raises(UsageError, match=r"nonsense\.txt: no such lock"):
        ensure(project, "nonsense")


def test_a_python_without_vllm_is_refused() -> None:
    with pytest.raises(UsageError, match=r"has no vLLM \(install vllm==0.26.0"):
        adopt(Path(sys.executable), "0.26.0")


def test_no_python_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no Python that runs"):
        adopt(tmp_path / "python", "0.26.0")


@pytest.mark.parametrize("found", ["0.26.0", "0.26.0+cu129"])
def test_the_right_vllm_is_adopted(monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    monkeypatch.setattr(environment, "_ask", lambda python: facts(found))
    adopted = adopt(Path(sys.executable), "0.26.0")
    assert adopted.vllm == ("vllm", found)
    assert adopted.fingerprint()["vllm"] == found


def test_another_vllm_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_ask", lambda python: facts("0.27.0"))
    with pytest.raises(UsageError, match=r"has vllm 0\.27\.0, the pin is 0\.26\.0"):
        adopt(Path(sys.executable), "0.26.0")


def facts(vllm: str) -> dict[str, object]:
    return {"packages": {"vllm": vllm}, "python": "3.11.7", "site": "/site"}
