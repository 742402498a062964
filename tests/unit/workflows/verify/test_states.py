# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from harness.git import Git
from harness.series.checkout import require_state
from harness.workflows.verify.states import (
    BASE,
    QUICK,
    TreeState,
    plan,
    series_states,
    syntax_errors,
)
from tests.support.toy import ALPHA, BETA, Toy


def _states(toy: Toy) -> tuple[TreeState, ...]:
    return series_states(toy.project, toy.series, require_state(toy.project))


def test_n_patches_make_n_plus_one_states(toy: Toy) -> None:
    states = _states(toy)
    assert [s.label for s in states] == [BASE, "0001", "0002"]
    assert len({s.content for s in states}) == 3
    assert states[2].blobs[BETA] == toy.series.patch("0002").targets[0].after
    assert states[1].blobs[BETA] == toy.series.patch("0002").targets[0].before


def test_content_depends_on_python_files_alone(toy: Toy) -> None:
    before = [s.content for s in _states(toy)]
    (toy.checkout / "README.md").write_text("other\n")
    git = Git(toy.checkout.resolve(), {"user.name": "n", "user.email": "e@f.org"})
    git.run("commit", "-qam", "other words")
    state = require_state(toy.project)
    moved = state.model_copy(
        update={"commits": {**state.commits, "0002": git.text("rev-parse", "HEAD")}}
    )
    after = [s.content for s in series_states(toy.project, toy.series, moved)]
    assert after == before


def test_worktrees_of_two_states_stand_side_by_side(toy: Toy) -> None:
    base, _, last = _states(toy)
    one, other = base.worktree(toy.project), last.worktree(toy.project)
    assert "alpha_5 = 5\n" in (one / ALPHA).read_text()
    assert "alpha_5 = 55" in (other / ALPHA).read_text()
    (one / ALPHA).write_text("spoiled")
    assert "alpha_5 = 5\n" in (base.worktree(toy.project) / ALPHA).read_text()


def test_what_nothing_imports_is_not_served_again(toy: Toy) -> None:
    states = _states(toy)
    chosen = plan(states, frozenset({BETA}), quick=False)
    assert [s.label for s in chosen.served] == [BASE, "0002"]
    assert chosen.speaks_for == {BASE: BASE, "0001": BASE, "0002": "0002"}
    assert "no serving process imports a file of 0001" in chosen.reasons["0001"]
    (only,) = chosen.comparisons
    assert (only.before.label, only.after.label) == (BASE, "0002")
    assert [p.number for p in only.patches] == ["0002"]


def test_each_executed_patch_is_compared_with_the_one_before(toy: Toy) -> None:
    chosen = plan(_states(toy), frozenset({ALPHA, BETA}), quick=False)
    assert [c.name for c in chosen.comparisons] == ["base-0001", "0001-0002"]


def test_quick_serves_two_states_and_judges_together(toy: Toy) -> None:
    chosen = plan(_states(toy), frozenset({ALPHA, BETA}), quick=True)
    assert [s.label for s in chosen.served] == [BASE, "0002"]
    (only,) = chosen.comparisons
    assert only.name == QUICK
    assert [p.number for p in only.patches] == ["0001", "0002"]
    assert chosen.speaks_for == {BASE: BASE, "0001": "0002", "0002": "0002"}


def test_a_patch_left_to_others_is_judged_with_the_next(toy: Toy) -> None:
    executed = frozenset({ALPHA, BETA})
    for quick in (False, True):
        chosen = plan(_states(toy), executed, quick=quick, only=frozenset({"0002"}))
        assert [s.label for s in chosen.served] == [BASE, "0002"]
        (only,) = chosen.comparisons
        assert [p.number for p in only.patches] == ["0001", "0002"]
    assert "0001 is left to other servers" in chosen.reasons["0001"]


def test_a_patch_left_to_others_at_the_end_is_not_judged(toy: Toy) -> None:
    executed, only = frozenset({ALPHA, BETA}), frozenset({"0001"})
    for quick in (False, True):
        chosen = plan(_states(toy), executed, quick=quick, only=only)
        assert [s.label for s in chosen.served] == [BASE, "0001"]
        (comparison,) = chosen.comparisons
        assert [p.number for p in comparison.patches] == ["0001"]
        assert "0002 is left to other servers" in chosen.reasons["0002"]


def test_nothing_executed_nothing_compared(toy: Toy) -> None:
    chosen = plan(_states(toy), frozenset(), quick=True)
    assert chosen.comparisons == ()
    assert [s.label for s in chosen.served] == [BASE]


def test_a_syntax_error_is_named_by_file_and_line(toy: Toy) -> None:
    toy.edit(BETA, "beta_0 = 0", "beta_0 = (0")
    toy.commit_all("Drop a beta", amend=True)
    toy.refresh()
    states = _states(toy)
    git = Git(toy.checkout.resolve())
    assert syntax_errors(git, states[1]) == {}
    (error,) = syntax_errors(git, states[2]).values()
    assert error.startswith(f"{BETA}:1: SyntaxError: '(' was never closed")
