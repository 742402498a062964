# SPDX-License-Identifier: Apache-2.0
"""Our own series and its rules, on vLLM's releases as the index has them."""

from __future__ import annotations

import pytest

from harness.compat.base import resolve
from harness.compat.carried import CarriedPatch, read_series
from harness.compat.matrix import Request, judge_matrix
from harness.compat.render import markdown, readme_part
from harness.compat.rules import look
from harness.compat.trees import PlainTree
from harness.compat.wheels import IndexReleases
from harness.models.base import load
from harness.models.compat import Compatibility
from harness.models.pin import Upstream
from harness.paths import Project, default_root
from harness.readme import shown

pytestmark = pytest.mark.network

PROJECT = Project(default_root())
UPSTREAM = load(PROJECT.pin, Upstream)
MISSING, APPLIES, EXACT = "MISSING", "APPLIES", "EXACT"
FREE, OTHER = "NOT-AFFECTED", "MERGED-MODIFIED"
EXPECTED = {
    "v0.20.2": (MISSING, MISSING, APPLIES, MISSING, FREE),
    "v0.21.0": (MISSING, MISSING, APPLIES, MISSING, FREE),
    "v0.22.1": (APPLIES, APPLIES, APPLIES, MISSING, FREE),
    "v0.23.0": (APPLIES, APPLIES, APPLIES, APPLIES, FREE),
    "v0.24.0": (APPLIES, APPLIES, APPLIES, APPLIES, FREE),
    "v0.25.0": (APPLIES, APPLIES, APPLIES, APPLIES, FREE),
    "v0.25.1": (APPLIES, APPLIES, APPLIES, APPLIES, FREE),
    "v0.26.0": (EXACT, EXACT, EXACT, EXACT, EXACT),
    "v0.27.0": (OTHER, OTHER, APPLIES, OTHER, OTHER),
    "v0.29.0": (OTHER, OTHER, APPLIES, OTHER, OTHER),
    "v0.30.0": (OTHER, OTHER, OTHER, OTHER, OTHER),
    "v0.33.0": (OTHER, OTHER, OTHER, OTHER, OTHER),
}
"""0001 to 0005. 0003: the key tells drafts apart from v0.30.0 on, in its own way."""


@pytest.fixture(scope="module")
def result() -> Compatibility:
    releases = IndexReleases(UPSTREAM.project, prereleases=False, say=print)
    try:
        return judge_matrix(
            Request(PROJECT.patches, tags=tuple(EXPECTED)), releases, print
        ).result
    finally:
        releases.close()


@pytest.mark.parametrize("tag", EXPECTED)
def test_verdicts(result: Compatibility, tag: str) -> None:
    (release,) = (r for r in result.releases if r.tag == tag)
    assert not release.failure
    found = tuple(cell.verdict.value for cell in release.verdicts.values())
    assert found == EXPECTED[tag]
    assert release.commit


def test_a_common_ancestor_is_no_rename(result: Compatibility) -> None:
    """One file of v0.21.0 became three: it is named, and no target is said to be it."""
    (release,) = (r for r in result.releases if r.tag == "v0.21.0")
    cell = release.verdicts["0004"]
    assert "vllm/model_executor/models/deepseek_v4.py" in cell.detail
    assert not cell.moved


@pytest.fixture(scope="module")
def pinned() -> PlainTree:
    releases = IndexReleases(UPSTREAM.project, prereleases=False, say=print)
    try:
        tree = releases.tree(UPSTREAM.tag)
        tree.prepare(UPSTREAM.targets)
        files = {path: tree.read(path) or b"" for path in UPSTREAM.targets}
    finally:
        releases.close()
    return PlainTree(UPSTREAM.tag, files)


@pytest.fixture(scope="module")
def patches(pinned: PlainTree) -> dict[str, CarriedPatch]:
    series = read_series(PROJECT.patches, pinned.files)
    return {patch.name: patch for patch in series.patches}


@pytest.fixture(scope="module")
def patched(pinned: PlainTree, patches: dict[str, CarriedPatch]) -> dict[str, bytes]:
    files = dict(pinned.files)
    for versions in resolve(list(patches.values()), pinned).versions.values():
        for path, version in versions.items():
            files[path] = b"".join(version.after or ())
    return files


NUMBERS = ("0001", "0002", "0003", "0004", "0005")


@pytest.mark.parametrize("number", NUMBERS)
def test_rules_tell_before_from_after(
    pinned: PlainTree,
    patches: dict[str, CarriedPatch],
    patched: dict[str, bytes],
    number: str,
) -> None:
    rules = patches[number].rules
    assert rules is not None
    before, after = look(rules, pinned.files), look(rules, patched)
    assert (before.defect, before.fix) == (True, False)
    assert (after.defect, after.fix) == (False, True)


GUARD = b"if get_pp_group().is_last_rank and needs_target_hidden_states:"
COPY = b"        if self._mtp_hidden_buffer is not None:\n"
FLAG = b"needs_target_hidden_states = spec_config is not None and ("
FACTOR = b"factors.append(self.use_eagle() or self.uses_draft_model())"
V4 = {"0001": "amd", "0002": "nvidia", "0004": "xpu"}


def mutated(patched: dict[str, bytes], path: str, old: bytes, new: bytes) -> bytes:
    assert old in patched[path], (path, old)
    return patched[path].replace(old, new)


@pytest.mark.parametrize("number", V4)
@pytest.mark.parametrize(
    ("old", "new", "defect"),
    [
        # Undone in part: the defect is back.
        (GUARD, b"if get_pp_group().is_last_rank:", True),
        (COPY, b"        if True:\n", True),
        (FLAG, b"needs_target_hidden_states = bool(self.hc_dim) and (", None),
        # In other words: still fixed.
        (b"needs_target_hidden_states", b"draft_reads", False),
        (GUARD, b"if vllm_config.speculative_config is not None:", False),
        (
            COPY,
            b"        if needs_draft and self._mtp_hidden_buffer is not None:\n",
            False,
        ),
    ],
    ids=["no-guard", "no-copy-guard", "flag-of-else", "renamed", "inline", "longer"],
)
def test_buffer_rules_on_mutants(
    patches: dict[str, CarriedPatch],
    patched: dict[str, bytes],
    number: str,
    old: bytes,
    new: bytes,
    defect: bool | None,
) -> None:
    path = f"vllm/models/deepseek_v4/{V4[number]}/model.py"
    rules = patches[number].rules
    assert rules is not None
    source = mutated(patched, path, old, new)
    if defect is None:
        # The call that follows still names what the flag is about.
        source = source.replace(b"spec_config.use_eagle()", b"a()")
        source = source.replace(b"spec_config.uses_draft_model()", b"b()")
        defect = True
    found = look(rules, {path: source})
    assert (found.defect, found.fix) == (defect, not defect)


@pytest.mark.parametrize(
    ("new", "defect"),
    [
        (b"factors.append(self.num_speculative_tokens)", True),
        (b"pass", True),
        (b"factors.append(self.uses_draft_model())", False),
        (b"factors.append((self.use_eagle(), self.method))", False),
        (b"factors.append(self.draft_model_config.compute_hash())", False),
    ],
)
def test_hash_rules_on_mutants(
    patches: dict[str, CarriedPatch],
    patched: dict[str, bytes],
    new: bytes,
    defect: bool,
) -> None:
    path = "vllm/config/speculative.py"
    rules = patches["0003"].rules
    assert rules is not None
    found = look(rules, {path: mutated(patched, path, FACTOR, new)})
    assert (found.defect, found.fix) == (defect, not defect)


GENERIC = "vllm/model_executor/models/deepseek_mtp.py"
V32 = "vllm/models/deepseek_v32/nvidia/mtp.py"
GATHER = b"hidden_states = tensor_model_parallel_all_gather(hidden_states, 0)"


@pytest.mark.parametrize(
    ("new", "defect", "fix"),
    [
        (b"hidden_states = sp_all_gather(hidden_states)", False, True),
        (
            b"both = torch.cat([hidden_states, residual], dim=-1)\n"
            b"            both = tensor_model_parallel_all_gather(both, 0)",
            True,
            False,
        ),
        (
            b"hidden_states, residual = _restore_full_token_layout_if_needed(\n"
            b"                hidden_states, residual, positions.shape[0])",
            True,
            False,
        ),
        (b"pass", False, False),
    ],
    ids=["other-helper", "gathers-both", "calls-helper", "no-gather"],
)
def test_gather_rules_on_mutants(
    patches: dict[str, CarriedPatch],
    patched: dict[str, bytes],
    new: bytes,
    defect: bool,
    fix: bool,
) -> None:
    rules = patches["0005"].rules
    assert rules is not None
    sources = {GENERIC: mutated(patched, GENERIC, GATHER, new), V32: patched[V32]}
    found = look(rules, sources)
    assert (found.defect, found.fix) == (defect, fix)


def test_unrelated_gathers_are_no_defect(
    patches: dict[str, CarriedPatch], patched: dict[str, bytes]
) -> None:
    """forward concatenates embeddings too: only gathering that tensor counts."""
    rules = patches["0005"].rules
    assert rules is not None
    assert b"torch.cat([inputs_embeds" in patched[GENERIC]
    assert not look(rules, patched).defect


def test_results_and_readme_show_the_same_table() -> None:
    stored = load(PROJECT.results / "compat.json", Compatibility)
    page = (PROJECT.results / "compat.md").read_text(encoding="utf-8")
    assert page == markdown(stored)
    readme = PROJECT.root / "README.md"
    if readme.exists() and (text := shown(readme, "compat")) is not None:
        assert text == readme_part(stored)
