"""The gate of headline figures: tolerances, resumption, changed sources, broken files."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from berth.pilot.errors import BerthError, DocumentError, UsageError
from lab.__main__ import main as lab_main
from lab.gate import command, figure, report, results, sources
from lab.gate.command import accept, choose, forget, freeze
from lab.gate.compute import compute
from lab.gate.figure import Figure, Frozen, Part, Verdict, load_parts, verdict
from lab.gate.results import Results
from lab.gate.run import run

ROOT = Path(__file__).resolve().parents[2]


def a_figure(**changed: object) -> Figure:
    given = {
        "id": "a.error", "name": "error", "data": "d", "split": "s", "source": "docs/d.md",
        "better": "lower", "tolerance": 0.01, **changed,
    }  # fmt: skip
    return Figure.model_validate(given)


def a_part(name: str = "a", **changed: object) -> Part:
    given = {"name": name, "module": "some.module", "seconds": 1.0, "figures": [a_figure()]}
    return Part.model_validate({**given, **changed})


@pytest.fixture
def kept(tmp_path: Path) -> Results:
    return Results(tmp_path / "gate", "sources-1")


def computing(values: dict[str, float]) -> Callable[[Part, Results], str]:
    def compute_part(part: Part, folder: Results) -> str:
        folder.write(part, values, 1.0)
        return ""

    return compute_part


def not_again(part: Part, folder: Results) -> str:
    raise AssertionError("computed again")


@pytest.mark.parametrize(
    ("better", "now", "expected"),
    [
        ("lower", 0.5, Verdict.SAME),
        ("lower", 0.509, Verdict.WITHIN),
        ("lower", 0.491, Verdict.WITHIN),
        ("lower", 0.511, Verdict.WORSE),
        ("lower", 0.489, Verdict.BETTER),
        ("higher", 0.489, Verdict.WORSE),
        ("higher", 0.511, Verdict.BETTER),
        ("near", 0.511, Verdict.WORSE),
        ("near", 0.489, Verdict.WORSE),
        ("near", 0.495, Verdict.WITHIN),
        ("lower", math.nan, Verdict.WORSE),
        ("higher", math.inf, Verdict.WORSE),
        ("lower", None, Verdict.NOT_COMPUTED),
    ],
)
def test_a_figure_is_worse_only_beyond_its_tolerance(
    better: str, now: float | None, expected: Verdict
) -> None:
    assert verdict(a_figure(better=better), 0.5, now) is expected


@pytest.mark.parametrize(
    ("now", "expected"),
    [(0.9, Verdict.BETTER), (0.795, Verdict.WITHIN), (0.78, Verdict.WORSE), (0.99, Verdict.WITHIN),
     (1.0, Verdict.WITHIN), (1.02, Verdict.WORSE)],
)  # fmt: skip
def test_coverage_is_judged_by_how_near_it_is_to_the_nominal_one(
    now: float, expected: Verdict
) -> None:
    assert verdict(a_figure(better="near", target=0.9, tolerance=0.011), 0.8, now) is expected


def test_a_zero_tolerance_allows_the_same_value_alone() -> None:
    exact = a_figure(tolerance=0.0, better="higher")
    assert verdict(exact, 6.0, 6.0) is Verdict.SAME
    assert verdict(exact, 6.0, 5.0) is Verdict.WORSE


def test_a_figure_without_a_value_before_is_no_success() -> None:
    lines = report.judge([a_part()], {}, {})
    assert lines[0].verdict is Verdict.NOT_COMPUTED
    assert report.exit_status(lines) == report.INCOMPLETE_STATUS
    assert verdict(a_figure(), None, 0.5) is Verdict.NOT_FROZEN


def test_the_exit_status_is_one_where_a_figure_is_worse(kept: Results) -> None:
    frozen = {"a.error": Frozen(before=0.5, frozen_from="docs", commit="x")}
    for value, status in ((0.5, 0), (0.6, 1), (0.1, 0)):
        part = a_part(seed=int(100 * value))
        found = run([part], kept, jobs=1, compute=computing({"a.error": value}))
        lines = report.judge([part], found, frozen)
        assert report.exit_status(lines) == status
        assert len(report.worse(lines)) == status
    text = report.table(lines)
    assert "0.5*" in text
    assert "better" in text
    assert "documentation" in report.summary(lines)


@pytest.mark.parametrize(
    ("printed", "now", "outdated"),
    [(0.737, 0.7361, True), (0.737, 0.73651, False), (0.4, 0.42, False), (6.0, 6.0, False),
     (0.737, math.nan, True)],
)  # fmt: skip
def test_a_page_that_prints_other_digits_is_named(
    kept: Results, printed: float, now: float, outdated: bool
) -> None:
    part = a_part(figures=[a_figure(printed=printed)])
    found = run([part], kept, jobs=1, compute=computing({"a.error": now}))
    said = report.outdated(report.judge([part], found, {}))
    assert bool(said) is outdated
    assert all("docs/d.md prints" in sentence for sentence in said)


def test_a_finished_part_is_not_computed_again(kept: Results) -> None:
    first = run([a_part()], kept, jobs=2, compute=computing({"a.error": 0.5}))
    assert run([a_part()], kept, jobs=2, compute=not_again) == first


@pytest.mark.parametrize("change", ["sources", "seed", "module"])
def test_a_result_of_other_sources_is_never_shown(kept: Results, change: str) -> None:
    run([a_part()], kept, jobs=1, compute=computing({"a.error": 0.5}))
    if change == "sources":
        other, part = dataclasses.replace(kept, sources="sources-2"), a_part()
    else:
        other, part = kept, a_part(**{change: 7 if change == "seed" else "another.module"})
    assert other.read(part) is None
    assert other.work(part) != kept.work(a_part())
    found = run([part], other, jobs=1, compute=computing({"a.error": 0.7}))
    assert found["a"].values == {"a.error": 0.7}


def test_a_result_copied_over_another_is_not_read(kept: Results) -> None:
    kept.write(a_part(), {"a.error": 0.5}, 1.0)
    other = dataclasses.replace(kept, sources="sources-2")
    kept.path(a_part()).rename(other.path(a_part()))
    assert other.read(a_part()) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"key": 1}', "\udcff"])
def test_a_broken_file_is_computed_again(kept: Results, content: str) -> None:
    kept.write(a_part(), {"a.error": 0.5}, 1.0)
    kept.path(a_part()).write_bytes(content.encode(errors="surrogateescape"))
    found = run([a_part()], kept, jobs=1, compute=computing({"a.error": 0.6}))
    assert found["a"].values == {"a.error": 0.6}


def test_what_is_no_number_stays_worse_after_a_resumption(kept: Results) -> None:
    run([a_part()], kept, jobs=1, compute=computing({"a.error": math.nan}))
    found = run([a_part()], kept, jobs=1, compute=not_again)
    frozen = {"a.error": Frozen(before=0.5, frozen_from="run", commit="x")}
    assert report.judge([a_part()], found, frozen)[0].verdict is Verdict.WORSE
    with pytest.raises(BerthError, match=r"a\.error"):
        freeze(found, frozen)


def test_a_worse_value_is_accepted_with_its_reason_and_the_others_stay(tmp_path: Path) -> None:
    part = a_part(figures=[a_figure(), a_figure(id="a.other")])
    frozen = {
        name: Frozen(before=0.5, frozen_from="run", commit="x") for name in ("a.error", "a.other")
    }
    kept = Results(tmp_path, "sources-1")
    kept.write(part, {"a.error": 0.6, "a.other": 0.505}, 1.0)
    lines = report.judge([part], {"a": kept.read(part)}, frozen)  # type: ignore[dict-item]
    taken = accept(lines, frozen, "a data sheet was corrected")
    assert (taken["a.error"].before, taken["a.error"].reason) == (0.6, "a data sheet was corrected")
    assert taken["a.other"] == frozen["a.other"]
    figure.save_frozen(taken, [part], tmp_path / "frozen.json")
    assert figure.load_frozen(tmp_path / "frozen.json") == taken


def test_fresh_forgets_results_and_unfinished_work(kept: Results) -> None:
    kept.write(a_part(), {"a.error": 0.5}, 1.0)
    kept.work(a_part()).mkdir()
    forget(kept, [a_part()])
    assert list(kept.folder.iterdir()) == []


def test_a_part_that_fails_leaves_the_others(kept: Results) -> None:
    def failing(part: Part, folder: Results) -> str:
        if part.name == "a":
            return "exit status 1"
        return computing({"b.error": 1.0})(part, folder)

    said: list[str] = []
    found = run([a_part(), a_part("b")], kept, jobs=2, compute=failing, say=said.append)
    assert list(found) == ["b"]
    assert "a: FAILED, exit status 1" in said


def test_changed_sources_change_the_digest(tmp_path: Path) -> None:
    room = tmp_path / "room"
    (room / "__pycache__").mkdir(parents=True)
    (room / "code.py").write_text("A = 1\n")
    (room / "model.onnx").write_bytes(b"1")
    seen = [sources.digest_of([room])]
    (room / "__pycache__" / "code.pyc").write_bytes(b"compiled")
    (room / "CARD.md").write_text("words")
    (room / ".unfinished").mkdir()
    (room / ".unfinished" / "part.npy").write_bytes(b"1")
    assert sources.digest_of([room]) == seen[0]
    (room / "code.py").write_text("A = 2\n")
    seen.append(sources.digest_of([room]))
    (room / "model.onnx").write_bytes(b"2")
    seen.append(sources.digest_of([room]))
    (room / "code.py").rename(room / "moved.py")
    seen.append(sources.digest_of([room]))
    assert len(set(seen)) == len(seen)


def test_parts_are_sources_and_the_table_is_not() -> None:
    names = {path.name for path in sources.files(Path(sources.__file__).parents[1])}
    assert {"kernels.py", "memory.py"} <= names
    own = Path(sources.__file__).parent
    assert not any(path.parent == own for path in sources.files(own.parent))


def test_an_unknown_part_is_named() -> None:
    with pytest.raises(UsageError, match="'nonsense'"):
        choose([a_part()], ["nonsense"], full=False)
    assert command.main(["nonsense"]) == UsageError.exit_status


def test_long_parts_run_only_when_asked_for() -> None:
    parts = [a_part(), a_part("b", full=True)]
    assert [part.name for part in choose(parts, [], full=False)] == ["a"]
    assert [part.name for part in choose(parts, [], full=True)] == ["a", "b"]
    assert [part.name for part in choose(parts, ["b"], full=False)] == ["b"]


def test_an_unlisted_figure_and_sources_that_change_meanwhile_are_errors(
    kept: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = a_part(module="lab.gate.parts.memory")
    module = importlib.import_module(part.module)
    monkeypatch.setattr(module, "figures", lambda _: {"error": 1.0, "surplus": 2.0})
    with pytest.raises(BerthError, match=r"a\.surplus"):
        compute(part, kept, lambda: kept.sources)
    monkeypatch.setattr(module, "figures", lambda _: {"error": 1.0})
    with pytest.raises(BerthError, match="sources changed"):
        compute(part, kept, lambda: "sources-2")
    assert kept.read(part) is None
    compute(part, kept, lambda: kept.sources)
    result = kept.read(part)
    assert result is not None
    assert result.values == {"a.error": 1.0}


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "[part.a]\nmodule = 1", "[part.a]\nmodule = 'm'\nseconds = 1\nfigures = 2",
     "[part.a]\nmodule = 'm'\nseconds = 1\nfigures = [{ id = 'x' }]"],
)  # fmt: skip
def test_a_broken_table_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "figures.toml"
    path.write_text(text)
    with pytest.raises(DocumentError, match=r"figures\.toml"):
        load_parts(path)


def test_a_figure_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    one = "{ id = 'x', name = 'n', data = 'd', split = 's', source = 'p', better = 'lower', tolerance = 1 }"  # noqa: E501
    path = tmp_path / "figures.toml"
    path.write_text(f"[part.a]\nmodule = 'm'\nseconds = 1\nfigures = [{one}, {one}]\n")
    with pytest.raises(DocumentError, match=r"a\.x is there twice"):
        load_parts(path)


def test_every_figure_of_the_table_has_a_module_a_page_and_a_value_before() -> None:
    frozen = figure.load_frozen()
    root = Path(sources.__file__).parents[2]
    for part in load_parts():
        assert importlib.util.find_spec(part.module) is not None, part.name
        for each in part.figures:
            assert (root / each.source).is_file(), each.source
            assert each.id in frozen, each.id


def test_frozen_values_are_written_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "frozen.json"
    frozen = {"a.error": Frozen(before=0.1 + 0.2, frozen_from="run", commit="abc")}
    figure.save_frozen(frozen, [a_part()], path)
    assert figure.load_frozen(path) == frozen
    path.write_text("[]")
    with pytest.raises(DocumentError):
        figure.load_frozen(path)
    assert figure.load_frozen(tmp_path / "absent.json") == {}


def test_the_list_computes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list"]) == 0
    assert "kernels" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        lab_main(["nonsense"])
    assert ended.value.code == 2


def test_a_result_is_plain_json(kept: Results) -> None:
    kept.write(a_part(), {"a.error": 0.5}, 1.0)
    found = json.loads(kept.path(a_part()).read_text())
    assert found["values"] == {"a.error": 0.5}
    assert found["key"] == kept.key(a_part())
    assert results.Result.model_validate(found).seconds == 1.0


def test_pages_print_what_the_gate_says_that_they_print() -> None:
    """As a number or as a percentage, with up to five digits behind the point."""
    figures = [figure for part in load_parts() for figure in part.figures if figure.printed]
    assert [one.id for one in figures if not is_printed(one.printed or 0.0, one.source)] == []


def is_printed(value: float, page: str) -> bool:
    forms = {f"{v:.{digits}f}" for v in (value, 100 * value) for digits in range(6)}
    exact = [re.escape(form) for form in forms if float(form) in (value, round(100 * value, 6))]
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.search(rf"(?<![\d.])(?:{'|'.join(exact)})(?!\d|\.\d)", text) is not None
