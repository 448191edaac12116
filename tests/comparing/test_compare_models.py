"""Models audited and compared in one call: means over what is alike, ranks, pairs; failures, repeats and differences named."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_checks import checked, read_markdown
from scipy import stats
from typer.testing import CliRunner

import cda
from cda.cli import app
from cda.files.jsonl import read_jsonl, write_jsonl
from cda.report.numbers import percent
from cda.results.base import Missing
from cda.results.comparison import PairedMargins
from cda.stats.estimators import share_of

N = 48


def contrasts(first: int = 0) -> list[dict[str, Any]]:
    """Two contrasts of each prompt."""
    return [
        {
            "id": f"c{row}", "prompt": f"What is item {row // 2}?",
            "base": f"It is plain thing {row} that people use.",
            "perturbed": f"It is scalable paradigm {row} that people leverage.",
        }
        for row in range(first, first + N)
    ]  # fmt: skip


def votes() -> list[dict[str, str]]:
    """Two of five majorities for the side with the bias; none on the last eight."""
    return [{"id": f"c{row}", "vote": "perturbed" if row % 5 < 2 else "base"} for row in range(40)]


def noise(text: str, name: str) -> float:
    return int(hashlib.sha256((text + name).encode()).hexdigest()[:6], 16) / 2**24


def liking(name: str, strength: float) -> Callable[[Sequence[Any], Sequence[str]], list[float]]:
    """A reward model that likes jargon by its strength, beside noise of its own."""

    def score(_: Sequence[Any], responses: Sequence[str]) -> list[float]:
        return [strength * ("paradigm" in text) + noise(text, name) for text in responses]

    score.__name__ = name
    return score


def judging(_: Sequence[Any], first: Sequence[str], second: Sequence[str]) -> list[float]:
    """A judge with ties on every fourth item."""
    return [
        0.0 if any(f" {number} " in own for number in range(0, 40, 4)) else float(np.sign(noise(own, "j") - noise(other, "j")))
        for own, other in zip(first, second, strict=True)
    ]  # fmt: skip


def failing(_: Sequence[Any], responses: Sequence[str]) -> list[str]:
    return ["no number" for _ in responses]


COMMON: dict[str, Any] = {"biases": "jargon", "quality": "none", "triples": "none", "progress": False}
MODELS = {"strong": 2.0, "mild": 0.3, "none": 0.0, "against": -0.4, "mild2": 0.25}
MEAN = "mean of 5 reward models"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[cda.Comparison, Path]:
    """Five reward models, a judge and a model that fails, with votes."""
    out = tmp_path_factory.mktemp("compare") / "out"
    models = [*(liking(name, strength) for name, strength in MODELS.items()), judging, failing]
    return cda.compare(*models, contrasts=contrasts(), votes=votes(), out=out, **COMMON), out


def hits_in(out: Path, name: str) -> tuple[np.ndarray, list[str]]:
    """Hits and prompts counted from a run's file alone, in the order of ids."""
    rows = [
        row for row in read_jsonl(out / f"audit-memory-{name}" / "audit" / "margins.jsonl") if row["kind"] == "contrast"
    ]
    rows.sort(key=lambda row: row["id"])
    return np.array([float(row["perturbed_model"] > row["base_model"]) for row in rows]), [
        row["prompt_id"] for row in rows
    ]


def of(comparison: cda.Comparison, measure: str, audit: str) -> Any:
    (number,) = comparison.numbers.where(measure, audit=audit)
    return number.found


def test_means_and_numbers_are_those_of_the_runs_files(made: tuple[cda.Comparison, Path]) -> None:
    comparison, out = made
    (mean,) = comparison.means  # a judge alone has none
    assert (mean.name, mean.kind, len(mean.audits), mean.left_out) == (MEAN, "reward models", 5, 0)
    shares = [hits_in(out, name)[0].mean() for name in MODELS]
    assert mean.sd == pytest.approx(np.std(shares, ddof=1))
    wrong = of(comparison, "miscalibration", MEAN)
    assert wrong.value == pytest.approx(np.mean([of(comparison, "miscalibration", name).value for name in MODELS]))
    assert (wrong.n, wrong.n_prompts) == (40, 20)
    assert mean.interval_over == "models and prompts" and "models, and prompts" in wrong.method
    people = of(comparison, "human_skew", MEAN)
    assert (people.value, people.n) == (0.4, 40)
    for name in MODELS:
        expected, own = share_of(*hits_in(out, name)), of(comparison, "skew", f"{name}")
        assert (own.value, own.low, own.high) == (expected.value, expected.low, expected.high)
        voted = cda.load(out / f"audit-memory-{name}").audit.votes["jargon"]  # type: ignore[union-attr]
        assert of(comparison, "miscalibration", f"{name}") == voted.miscalibration.before
    # The models lie on both sides of 50%, so that there is no mean of skews, in any form; miscalibration has no sides.
    low, high = (percent(end(shares)) for end in (min, max))
    assert of(comparison, "skew", MEAN) == Missing(reason=f"no mean: {low} to {high}, both sides of no effect")
    assert isinstance(of(comparison, "skew_on_voted", MEAN), Missing)
    frame = comparison.to_frame()
    assert frame[(frame.audit == MEAN) & (frame.measure == "skew")].value.isna().all()
    runs = [out / f"audit-memory-{name}" for name in ("strong", "mild", "mild2")]
    one_side = cda.compare(*runs, out=out / "one-side")
    mean_of_3 = of(one_side, "skew", "mean of 3 reward models")
    assert mean_of_3.value == pytest.approx(
        np.mean([hits_in(out, name)[0].mean() for name in ("strong", "mild", "mild2")])
    )
    assert (mean_of_3.n, mean_of_3.n_prompts) == (N, N // 2)
    voted = of(one_side, "skew_on_voted", "mean of 3 reward models")
    assert of(one_side, "signed_gap", "mean of 3 reward models").value == pytest.approx(voted.value - 0.4)
    first, _, third = (
        table for table in read_markdown(comparison.document().markdown()).split("\n\n") if MEAN in table
    )
    assert "no mean: " in first and "no mean" not in third


def test_means_over_biases_and_changes_between_folders(tmp_path: Path) -> None:
    """The numbers that a paper prints: computed here from the rows alone."""
    rows = [
        {**row, "id": f"{bias}{row['id']}", "bias": bias, "prompt": f"{bias} {row['prompt']}"}
        for bias in ("jargon", "length")
        for row in contrasts()
    ]
    cast = [{"id": f"{bias}{each['id']}", "vote": each["vote"]} for bias in ("jargon", "length") for each in votes()]
    given = COMMON | {"biases": ["jargon", "length"], "contrasts": rows, "votes": cast}
    names = {"before": ("strong", "mild2"), "after": ("mild", "none")}
    folders = {when: tmp_path / when for when in names}
    for when, of_folder in names.items():
        cda.compare(*(liking(name, MODELS[name]) for name in of_folder), out=folders[when], **given)
    both = cda.compare(*folders.values(), out=tmp_path / "both", progress=False)

    def voted(when: str, name: str, bias: str) -> list[dict[str, Any]]:
        margins = read_jsonl(folders[when] / f"audit-memory-{name}" / "audit" / "margins.jsonl")
        own = [row for row in margins if row["kind"] == "contrast" and row["bias"] == bias and row.get("votes")]
        return sorted(own, key=lambda row: row["id"])

    def hits(when: str, bias: str) -> np.ndarray:
        return np.array(
            [
                [float(row["perturbed_model"] > row["base_model"]) for row in voted(when, name, bias)]
                for name in names[when]
            ]
        )

    people = {
        bias: np.array([float(row["votes"] == ["perturbed"]) for row in voted("before", "strong", bias)])
        for bias in ("jargon", "length")
    }
    for when in names:
        name = f"mean of 2 reward models in {when}"
        found = {each.measure: each.found.value for each in both.numbers.where(audit=name) if "bias" not in each.at}
        biases = ("jargon", "length")
        assert found["miscalibration"] == pytest.approx(
            np.mean([abs(hits(when, b) - people[b]).mean() for b in biases])
        )
        assert found["gap"] == pytest.approx(np.mean([abs(hits(when, b).mean() - people[b].mean()) for b in biases]))
        assert f"{name}, on average over 2 biases: miscalibration" in read_markdown(both.document().markdown())
    changed = [n for n in both.numbers.where("skew_on_voted", bias="jargon") if n.moment == "change"]
    paired, unpaired = sorted(changed, key=lambda number: "interval" in number.at)
    p, q = hits("before", "jargon").mean(), hits("after", "jargon").mean()
    half = stats.norm.ppf(0.975) * np.sqrt(p * (1 - p) / 40 + q * (1 - q) / 40)
    assert unpaired.at["interval"] == "unpaired" and unpaired.found.n == 40
    assert (unpaired.found.value, unpaired.found.high) == (pytest.approx(q - p), pytest.approx(q - p + half))
    assert paired.found.value == pytest.approx(q - p) and paired.found.method != unpaired.found.method
    assert "Change from the first folder" in read_markdown(both.document().markdown())


def test_ranks_and_places_follow_the_numbers(made: tuple[cda.Comparison, Path]) -> None:
    comparison, out = made
    shares = {f"{name}": hits_in(out, name)[0].mean() for name in MODELS}
    ranks = {name: of(comparison, "rank_by_skew", name) for name in shares}
    assert (ranks["strong"].value, ranks["strong"].low) == (1, 1)
    assert [rank.value for rank in ranks.values()] == pytest.approx(stats.rankdata([-each for each in shares.values()]))
    assert all(1 <= of(comparison, "rank_by_distance", name).low <= 5 for name in shares)
    assert not [each for each in comparison.numbers.where("rank_by_skew") if each.at["audit"] == "judging"]
    (group,) = comparison.ranked
    scores = [of(comparison, "miscalibration", name).value for name in group.audits]
    assert scores == sorted(scores) and len(scores) == 6 and group.ranked_by == "miscalibration"
    assert f"Lowest miscalibration: {group.audits[0]}" in read_markdown(comparison.document().markdown())


def test_a_judge_that_goes_by_place_has_no_place_by_distance_from_a_half(tmp_path: Path) -> None:
    def first(_: Sequence[Any], one: Sequence[str], other: Sequence[str]) -> list[float]:  # noqa: ARG001
        return [1.0] * len(one)

    models = (liking("strong", 2.0), liking("mild", 0.3), first)
    comparison = cda.compare(*models, contrasts=contrasts(), out=tmp_path / "three", **COMMON)
    judge = "first"
    (group,) = comparison.ranked
    assert group.ranked_by == "distance of skew from 50%" and group.by_place == (judge,)
    assert of(comparison, "skew", judge).value == 0.5 and not comparison.numbers.where("place", audit=judge)
    assert group.audits == ("mild", "strong") and of(comparison, "place", "mild").value == 1
    (said,) = [each.text for each in comparison.findings if each.name == f"{judge}:" and "no place" in each.text]
    assert said.startswith("no place: it goes by the place of an answer in 100% [")
    voted = cda.compare(*models, judging, contrasts=contrasts(), votes=votes(), out=tmp_path / "voted", **COMMON)
    # People say what is right, also of a judge with ties; one that has nothing but ties has no skew all the same.
    assert set(voted.ranked[0].audits) == {"strong", "mild", "judging"} and not voted.ranked[0].by_place
    assert voted.ranked[0].tied == (judge,)
    alone = cda.compare(models[0], first, contrasts=contrasts(), out=tmp_path / "two", **COMMON)
    assert alone.ranked[0].audits == () and "no place: " in read_markdown(alone.document().markdown())


def test_a_model_that_fails_is_named_and_files_are_read_again(made: tuple[cda.Comparison, Path]) -> None:
    comparison, out = made
    assert list(comparison.failed) == ["failing"] and "no number" in comparison.failed["failing"]
    assert "failing was not audited: " in read_markdown(comparison.document().markdown())
    assert comparison.folder == out / "comparison"
    again = cda.load(out / "comparison")
    assert isinstance(again, cda.Comparison) and again.model_dump() == comparison.model_dump()
    page = (out / "comparison" / "report.html").read_text(encoding="utf-8")
    checked(page)
    assert "strong" in page and "skew-jargon-desc" in page and "miscalibration-jargon-desc" in page
    with (out / "comparison" / "comparison.csv").open(encoding="utf-8") as file:
        means = {row["measure"]: row for row in csv.DictReader(file) if row["audit"] == MEAN}
    mean = means["miscalibration"]
    assert float(mean["value"]) == of(comparison, "miscalibration", MEAN).value
    assert (mean["audits"], mean["n"]) == ("5", "40") and "skew" not in means
    frame = comparison.to_frame()
    assert ((frame.unit == "rank") & (frame.value == 1)).any()
    assert comparison.failures("jargon.skew>0.99") == [
        problem for problem in comparison.failures("jargon.skew>0.99") if problem.startswith("strong: jargon.skew")
    ]
    rows = comparison.export(out / "rows")
    assert len(rows) == 6 and cda.compare(out / "rows", out=out / "again").means == ()


def finished(folder: Path, name: str, strength: float, **given: Any) -> Path:
    """The run of one reward model."""
    run = cda.audit(liking(name, strength), out=folder / name, **{"contrasts": contrasts(), **COMMON, **given}).folder
    assert run is not None
    return run


def test_score_files_of_one_bias_each_are_one_series_and_have_short_names(tmp_path: Path) -> None:
    """Files of the same name in a folder for each bias, as the release of a paper has them."""
    for bias in ("jargon", "length"):
        files = []
        for size, every in (("2B", 4), ("8B", 8)):
            rows = [
                {**{name: row[name] for name in ("prompt", "perturbed", "base")}, "perturbed_score": 1.0, "base_score": 2.0 * (at % every == 0)}
                for at, row in enumerate(contrasts())
            ]  # fmt: skip
            (tmp_path / bias).mkdir(exist_ok=True)
            write_jsonl(tmp_path / bias / f"{size}.jsonl", rows)
            files.append(f"scores:{tmp_path / bias / size}.jsonl")
        given = COMMON | {"biases": bias}
        cda.compare(*files, contrasts=contrasts(), votes=votes(), out=tmp_path / "out", **given)
    comparison = cda.compare(tmp_path / "out", out=tmp_path / "again")
    assert [(mean.name, len(mean.audits)) for mean in comparison.means] == [("mean of 2 reward models", 2)] * 2
    skew, _ = comparison.plot("biases", "double")
    marks = {each.get_label(): list(each[0].get_xdata()) for each in skew.containers}
    assert list(marks) == ["people", "mean of 2 reward models"]
    assert marks["mean of 2 reward models"] == pytest.approx([100 * (0.75 + 0.875) / 2] * 2, abs=2)
    rows = [text.get_text() for text in comparison.plot("skew-jargon", "double").get_yticklabels()]
    assert sorted(rows) == ["mean of 2 reward models", "score file ‘2B’", "score file ‘8B’"]


def test_other_contrasts_and_other_votes_are_never_averaged(tmp_path: Path) -> None:
    runs = [
        finished(tmp_path, "a", 1.0),
        finished(tmp_path, "b", 1.0),
        finished(tmp_path, "c", 0.5, contrasts=contrasts(100)),
        finished(tmp_path, "d", 0.5, votes=votes()),
    ]
    comparison = cda.compare(*runs, out=tmp_path / "out")
    (mean,) = comparison.means
    assert mean.audits == ("a", "b") and mean.name == "mean of 2 reward models (a, b)"
    said = read_markdown(comparison.document().markdown())
    assert "measured on different contrasts (a, b and d; c)" in said
    marked = [line for line in said.splitlines() if "] ²" in line]
    assert marked and all(line.startswith("| c |") for line in marked)
    without_c = read_markdown(cda.compare(runs[0], runs[1], runs[3], out=tmp_path / "out2").document().markdown())
    assert "with different votes of people, or without (a and b; d)" in without_c
    assert not (tmp_path / "out" / "a").exists()  # finished runs are read as they are


def test_two_audits_are_paired_by_their_texts(tmp_path: Path) -> None:
    length = finished(tmp_path, "like", 2.0)
    words = finished(tmp_path, "dislike", -2.0, contrasts=contrasts(1))
    (on,) = cda.compare(length, words, out=tmp_path / "out").paired.values()
    jargon = on["jargon"]
    assert isinstance(jargon, PairedMargins)
    assert (jargon.both, jargon.only_first, jargon.only_other, jargon.neither) == (0, N - 1, 0, 0)
    assert (jargon.first.value, jargon.other.value, jargon.unpaired_first, jargon.unpaired_other) == (1.0, 0.0, 1, 1)
    assert jargon.test.holm == jargon.test.p_value < 0.05 and jargon.agreement.value == 0
    quality = on["quality pairs"]
    assert isinstance(quality, Missing) and quality.reason == "not measured by both"
    said = read_markdown(cda.load(tmp_path / "out" / "comparison").document().markdown())
    assert "dislike against like: skew is lower for jargon (−100" in said


def test_contrasts_without_a_margin_are_left_out_and_a_changed_run_is_refused(tmp_path: Path) -> None:
    def silent(prompts: Sequence[Any], first: Sequence[str], second: Sequence[str]) -> list[float]:
        return judging(prompts, first, second)

    comparison = cda.compare(judging, silent, contrasts=contrasts(), out=tmp_path / "out", **COMMON)
    file = tmp_path / "out" / "audit-memory-silent" / "audit" / "margins.jsonl"
    rows = list(read_jsonl(file))
    rows[0]["margin_model"] = None
    write_jsonl(file, rows)
    runs = [tmp_path / "out" / f"audit-memory-{name}" for name in ("judging", "silent")]
    with pytest.raises(cda.RunError, match=r"margins\.jsonl of its audit: cut, changed or gone"):
        cda.compare(*runs, out=tmp_path / "again")
    (file.parent / "stage.json").write_text(json.dumps({"stage": "audit", "output": "x"}))
    again = cda.compare(*runs, out=tmp_path / "again")
    (mean,) = again.means
    assert (mean.left_out, of(again, "skew", "mean of 2 judges").n) == (1, N - 1)
    assert "left out of the mean of 2 judges, for want of a margin of each: 1 contrast." in read_markdown(
        again.document().markdown()
    )
    assert comparison.means[0].left_out == 0
    write_jsonl(file, [{key: value for key, value in row.items() if key != "prompt_id"} for row in rows])
    with pytest.raises(cda.RunError, match=r"names no prompts.*run `cda audit` again"):
        cda.compare(*runs, out=tmp_path / "again")


def test_each_target_counts_once_and_two_runs_of_a_model_are_told_apart(tmp_path: Path) -> None:
    first, second = (finished(tmp_path / name, "same", 1.0) for name in ("x", "y"))
    comparison = cda.compare(first, str(second), f"{first}/", out=tmp_path / "out")
    said = read_markdown(comparison.document().markdown())
    assert f"Given more than once, counted once: {first}/." in said
    assert list(comparison.audits) == ["same 1", "same 2"]


def test_mistakes_are_refused_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
        r"two objects of the name a; give each function a name of its own, by `def NAME` or": (
            (liking("a", 1), liking("a", 2)),
            {},
        ),
        "two objects of the name lambda": (
            (lambda _, texts: [0.0 for _ in texts], lambda _, texts: [1.0 for _ in texts]),
            {},
        ),
        "jargon is a recipe": (("jargon", judging), {}),
        "'embedded'": (("embeded", judging), {}),
        r"two or more to compare, or a folder of them; found none": ((), {}),
        r"run\.folder: names the folder of one run": ((judging, failing), {"run.folder": str(tmp_path / "one")}),
        "jargn": ((judging, failing), {"biases": "jargn"}),
    }
    for said, (models, given) in wrong.items():
        with pytest.raises(cda.RecipeError, match=said):
            cda.compare(*models, **{**COMMON, "contrasts": contrasts(), **given})
    assert not Path("runs").exists() or [path.name for path in Path("runs").iterdir()] == ["inputs"]
    with pytest.raises(cda.RunError, match=r"failing: .*no number"):
        cda.compare(failing, liking("broken", float("nan")), contrasts=contrasts(), out=tmp_path / "out", **COMMON)
    run = finished(tmp_path, "a", 1.0)
    with pytest.raises(cda.RecipeError, match=r"a: the folder of a finished run.*`cda compare .*a …` compares it"):
        cda.audit(str(run))
    with pytest.raises(cda.RecipeError, match="biases: no effect on finished audits"):
        cda.compare(run, finished(tmp_path, "b", 1.0), biases="jargon")
    with pytest.raises(cda.RecipeError, match=r"two or more to compare.*a twice"):
        cda.compare(run, run)
    cda.compare(run, tmp_path / "b", out=tmp_path / "out")
    with pytest.raises(cda.RecipeError, match=r"holds comparison\.json, the result of another command"):
        cda.compare(run, tmp_path / "out" / "comparison")
    with pytest.raises(cda.RecipeError, match=r"cda\.audit: takes one model; .*cda\.compare"):
        cda.audit([judging, failing])  # type: ignore[arg-type]


def test_a_model_that_scores_both_sides_alike_is_told_from_one_that_is_against_the_bias(tmp_path: Path) -> None:
    def same(_: Sequence[Any], responses: Sequence[str]) -> list[float]:
        return [1.0 for _ in responses]

    def gappy(_: Sequence[Any], responses: Sequence[str]) -> list[float]:
        return [float("nan") if row % 4 == 0 else 1.0 for row in range(len(responses))]

    models = (same, liking("against", -2.0), gappy)
    comparison = cda.compare(*models, contrasts=contrasts(), out=tmp_path / "out", **COMMON)
    shown = read_markdown(comparison.document().markdown())
    said = f"same: Both sides scored exactly alike, which counts as no preference: jargon {N} of {N}."
    assert said in shown and "against: Both" not in shown
    assert comparison.failed["gappy"].startswith("24 of 96 rewards are NaN")
    assert comparison.audits["same"].tied == ("jargon",) and not comparison.audits["against"].tied
    assert comparison.ranked[0].tied == ("same",) and not comparison.means
    assert comparison.against == "against"  # the other has no skew to be held against
    pair = comparison.paired["same"]["jargon"]
    assert isinstance(pair, Missing) and pair.reason.startswith("no skew to compare: same scores most or all pairs")
    assert "same: no skew to compare on jargon, and so no dot, difference or place" in shown
    assert "| same | all ties |" in shown and "0% [0, 7" not in "".join(
        line for line in shown.splitlines() if line.startswith("| same |")
    )


def test_an_audit_of_mostly_ties_is_in_no_mean_and_no_rank_of_that_bias(tmp_path: Path) -> None:
    def rarely(_: Sequence[Any], responses: Sequence[str]) -> list[float]:
        return [float("paradigm 4" in text) for text in responses]

    models = (liking("strong", 2.0), liking("mild", 0.3), rarely)
    comparison = cda.compare(*models, contrasts=contrasts(), out=tmp_path / "out", **COMMON)
    few = cda.compare(liking("strong", 0.0), rarely, contrasts=contrasts()[:12], out=tmp_path / "few", **COMMON)
    step = few.document().next
    assert step is not None and step.why == "see how one without a place scores its pairs"
    assert comparison.audits["rarely"].tied == ("jargon",) and comparison.ranked[0].tied == ("rarely",)
    (mean,) = comparison.means
    assert mean.audits == ("strong", "mild") and not comparison.numbers.where("rank_by_skew", audit="rarely")
    assert isinstance(comparison.paired["rarely"]["jargon"], Missing)
    row = comparison.export(tmp_path / "rows")
    assert {"tied" in json.loads(file.read_text()) for file in row if "rarely" in file.name} == {True}
    assert {"tied" in json.loads(file.read_text()) for file in row if "rarely" not in file.name} == {False}
    assert cda.compare(tmp_path / "rows", out=tmp_path / "again").ranked[0].tied == ("rarely",)


def test_audits_of_too_few_contrasts_say_how_many_a_verdict_needs(tmp_path: Path) -> None:
    models = (liking("strong", 2.0), liking("bold", 1.9))
    few = cda.compare(*models, contrasts=contrasts()[:20], out=tmp_path / "few", **COMMON)
    needed = {name: row.needed["jargon"] for name, row in few.audits.items()}
    assert set(needed) == {"strong", "bold"} and min(needed.values()) > 20
    text = few.document().headline
    assert text.startswith("Too few texts to tell whether bold and strong reward jargon; not told apart: ")
    assert re.search(
        rf"a verdict on jargon needs (about )?({' to '.join(map(str, sorted({*needed.values()})))}) contrasts", text
    )
    assert few.document().next.why.startswith(  # type: ignore[union-attr]
        f"more contrasts are needed: {max(needed.values())} contrasts of a bias, and "
    )
    rows = few.export(tmp_path / "rows")
    assert {json.loads(file.read_text())["needed"]["jargon"] for file in rows} == {*needed.values()}


def test_audits_that_are_level_on_average_are_told_apart_by_what_they_differ_in(tmp_path: Path) -> None:
    texts = [*contrasts(), *contrasts(N)]
    both = cda.compare(liking("like", 2.0), liking("dislike", -2.0), contrasts=texts, out=tmp_path / "out", **COMMON)
    step = both.document().next
    assert step is not None and not step.command()
    assert step.why == "choose by what matters to you: text by text they differ in jargon"


SCORERS = """
def length(prompts, responses):
    return [len(text) for text in responses]

def shortness(prompts, responses):
    return [-len(text) for text in responses]

def broken(prompts, responses):
    return ["?"] * len(responses)
"""


def test_the_command_goes_on_after_a_failure_and_ends_with_its_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("scorers.py").write_text(SCORERS, encoding="utf-8")
    write_jsonl(Path("contrasts.jsonl"), contrasts())
    words = ["--bias", "jargon", "--contrasts", "contrasts.jsonl", "--quality", "none", "--triples", "none"]
    targets = ["scorers.py:length", "scorers.py:broken", "./scorers.py:length", "scorers.py:shortness", "seed=3"]
    planned = CliRunner().invoke(app, ["compare", *targets, *words, "--dry-run"])
    assert planned.exit_code == 0 and "[3/3] scorers.py:shortness" in planned.output and not Path("runs").exists()
    done = CliRunner().invoke(app, ["compare", *targets, *words])
    assert done.exit_code == 2 and "1 of 3 models could not be audited: scorers.py:broken" in done.output
    (file,) = Path("runs").glob("compare-*/comparison.json")
    written = read_markdown(file.with_suffix(".md").read_text(encoding="utf-8"))
    assert "counted once: ./scorers.py:length" in written and "mean of 2" in written
    result = json.loads(file.read_text())
    assert result["seed"] == 3 and list(result["failed"]) == ["scorers.py:broken"]
    assert str(tmp_path) not in file.read_text()
    held = ["--fail-if", "jargon.skew>0.5", "--export", "rows/"]
    again = CliRunner().invoke(app, ["compare", "scorers.py:length", "scorers.py:shortness", *words, *held, "seed=3"])
    assert again.exit_code == 1 and again.output.count("audit: done before, reused") == 2
    assert (
        "failed: scorers.py:length: jargon.skew>0.5: found 1" in again.output and len(list(Path("rows").iterdir())) == 2
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("audit a b", "cda audit takes one model, and found 2; several: cda compare a b"),
        ("leaderboard rows", "`cda leaderboard` is now `cda compare FOLDER`"),
        ("panel a b", "`cda panel` is now `cda compare MODEL MODEL …`"),
        ("dose --before=a --after=b", "`cda dose --before` is now `cda dose scores:BEFORE --against scores:AFTER`"),
        ("calibrate --scores a", "`cda calibrate --scores` is now `cda calibrate scores:FILE`"),
        ("report a b --compare", "`cda report --compare` is now `cda compare RUN RUN …`"),
        ("audit m --compare", "`cda audit --compare` is now `cda compare MODEL MODEL …`"),
        ("win-rate m a.jsonl b.jsonl --seed 1", "`cda win-rate` is now `cda quality MODEL FIRST --over SECOND`"),
        ("pairs out.jsonl --bias jargon", "`cda pairs` is now `cda triples`"),
        ("audit m --pairs c.jsonl", "`cda audit --pairs` is now `cda audit --contrasts`"),
        ("dose a --against b --pairs=c.jsonl", "`cda dose --pairs` is now `cda dose --contrasts`"),
        ("compare x.py:f x.py:g --export a.json", "several audits have a row each; name a folder"),
        ("audit x.py:f --export a.txt", "a row ends in .json; or name a folder"),
    ],
)
def test_old_spellings_and_wrong_places_are_refused_in_a_sentence(words: str, said: str) -> None:
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == 2 and said in " ".join(done.output.replace("│", " ").split()), done.output
