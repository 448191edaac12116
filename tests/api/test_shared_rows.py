"""Audits exported as rows to share, and finished audits compared contrast by contrast."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cda.results.panel import LeaderboardRow, PairedMargins
from scipy import stats
from typer.testing import CliRunner

import cda
from cda.cli import app
from cda.files.jsonl import read_jsonl, write_jsonl
from cda.results.base import Missing, load

PAIRS = [{"prompt": f"q{row}", "chosen": "good " * (row % 3 + 1), "rejected": "bad, long answer"} for row in range(12)]


def by_length(_: list[Any], responses: list[str]) -> list[int]:
    return [len(response) for response in responses]


def by_words(_: list[Any], responses: list[str]) -> list[float]:
    return [len(response.split()) - 9.0 * ("leverage" in response) for response in responses]


def shorter(_: list[Any], first: list[str], second: list[str]) -> list[float]:
    return [
        1.0 if len(one) < len(two) else -1.0 if len(one) > len(two) else 0.0
        for one, two in zip(first, second, strict=True)
    ]


def audited(target: Any, small: dict[str, Any], **given: Any) -> Any:
    return cda.audit(target, **{**small, "quality": PAIRS, **given})


def test_a_row_holds_the_audits_numbers_and_names_its_texts(small: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def score(prompts, responses):\n    return [len(text) for text in responses]\n")
    votes = [{"id": f"c{row}", "vote": "base" if row % 3 else "perturbed"} for row in range(12)]
    audit = audited(f"{tmp_path / 'mine.py'}:score", small, votes=votes, out=tmp_path / "run")
    file = audit.export(tmp_path / "row.json")
    row = load(LeaderboardRow, file, "")
    jargon, own = row.biases["jargon"], audit.votes["jargon"]
    assert jargon.skew == audit.skew["jargon"].before and row.quality == audit.quality.before
    assert (jargon.people, jargon.miscalibration) == (own.human_skew, own.miscalibration.before)
    assert jargon.distance == own.signed_gap.before
    assert isinstance(jargon.rate, Missing) and row.training is None
    assert (row.model, row.cda_version, row.scored.how) == (
        "mine.py:score",
        audit.versions["cda"],
        "Scored by mine.py:score",
    )
    assert row.date is not None and len(row.date) == 10
    assert jargon.contrasts.n == 12 and row.quality_pairs is not None and row.quality_pairs.n == 12
    assert str(tmp_path) not in file.read_text() and str(Path.home()) not in file.read_text()
    again = cda.load(tmp_path / "run").audit.export(tmp_path / "rows/")  # type: ignore[union-attr]
    assert again.parent == tmp_path / "rows" and again.name.startswith("mine.py-score-")
    assert again.read_text() == file.read_text()


def test_the_text_set_is_of_texts_and_votes_and_not_of_their_order(small: dict[str, Any], tmp_path: Path) -> None:
    rows, votes = small["contrasts"], [{"id": f"c{row}", "vote": "base"} for row in range(12)]
    changed = [rows[0] | {"base": "It is another thing."}, *rows[1:]]
    kinds: dict[str, dict[str, Any]] = {
        "first": {}, "reordered": {"contrasts": rows[::-1]}, "changed": {"contrasts": changed}, "voted": {"votes": votes},
        "voted again": {"votes": [*votes[1:], votes[0] | {"vote": "perturbed"}]}, "unpaired": {"quality": "none"},
    }  # fmt: skip
    found = {}
    for name, given in kinds.items():
        audit = audited(by_length, small, out=tmp_path / name, **given)
        found[name] = load(LeaderboardRow, audit.export(tmp_path / f"{name}.json"), "").text_set
    assert found["first"] == found["reordered"] and None not in found.values()
    assert len(set(found.values())) == 5


def test_an_audit_without_its_folder_and_wrong_places_are_refused(small: dict[str, Any], tmp_path: Path) -> None:
    audit = audited(by_length, small, out=tmp_path / "run")
    audit.save(tmp_path / "audit.json")
    with pytest.raises(cda.RunError, match=r"read from a file alone .*cda\.load\(folder\)\.audit"):
        cda.load(tmp_path / "audit.json").export(tmp_path / "row.json")  # type: ignore[union-attr]
    with pytest.raises(cda.RunError, match=r"row\.txt: a row ends in \.json; or name a folder"):
        audit.export(tmp_path / "row.txt")
    (tmp_path / "run" / "audit" / "margins.jsonl").unlink()
    with pytest.raises(cda.RunError, match=r"no finished audit with its margins\.jsonl"):
        audit.export(tmp_path / "row.json")
    for words, said in (("a.txt", "--export a.txt: a row ends in .json"), ("a.json", "2 models have a row each")):
        models = ["x.py:f"] if words == "a.txt" else ["x.py:f", "x.py:g"]
        done = CliRunner().invoke(app, ["audit", *models, "--export", words])
        assert done.exit_code == 2 and said in " ".join(done.output.split())
    assert not (tmp_path / "runs").exists()


def test_two_audits_are_paired_by_their_texts(small: dict[str, Any], tmp_path: Path) -> None:
    audited(by_length, small, out=tmp_path / "length")
    other = [*small["contrasts"][1:], {"prompt": "What else?", "base": "One.", "perturbed": "One or two."}]
    audited(by_words, small, contrasts=other, out=tmp_path / "words")
    found = cda.compare(tmp_path / "length", tmp_path / "words")
    (pair,) = found.pairs
    jargon = pair.contrasts["jargon"]
    assert isinstance(jargon, PairedMargins)
    # Of the 11 that both have, the longer side is perturbed in 7, which all say `leverage`.
    assert (jargon.both, jargon.only_first, jargon.only_other, jargon.neither) == (0, 7, 0, 4)
    assert (jargon.first.value, jargon.other.value, jargon.difference.n) == (7 / 11, 0.0, 11)
    assert (jargon.unpaired_first, jargon.unpaired_other, jargon.agreement.value) == (1, 1, 4 / 11)
    assert jargon.test.p_value == pytest.approx(stats.binomtest(0, 7).pvalue)
    assert jargon.test.holm == pytest.approx(2 * jargon.test.p_value) and found.n_tests == 2
    assert isinstance(pair.quality, PairedMargins) and pair.quality.first.n == 12
    differing = {difference.what: difference.values for difference in found.differences}
    assert differing["model"] == {"length": "memory:by_length", "words": "memory:by_words"}
    assert "contrasts of jargon" in differing and "quality pairs" not in differing and "kind" not in differing
    text = str(found)
    assert "words against length: skew is lower for jargon (−64" in text
    assert "Not made alike: the audits differ in" in text and "contrasts of jargon" in text


def test_a_judge_a_reward_model_and_what_was_saved(small: dict[str, Any], tmp_path: Path) -> None:
    audited(by_length, small, out=tmp_path / "length")
    audited(shorter, small, quality="none", out=tmp_path / "judge")
    done = CliRunner().invoke(app, ["report", "--compare", str(tmp_path / "length"), str(tmp_path / "judge")])
    assert done.exit_code == 0, done.output
    saved = cda.load(tmp_path / "comparison.json")
    assert isinstance(saved, cda.Comparison)
    (pair,) = saved.pairs
    jargon = pair.contrasts["jargon"]
    assert isinstance(jargon, PairedMargins) and isinstance(jargon.correlation, cda.Estimate)
    assert (jargon.agreement.value, jargon.correlation.value < 0) == (0.0, True)
    assert isinstance(pair.quality, Missing) and pair.quality.reason == "not measured by both"
    assert {difference.what for difference in saved.differences} >= {"kind", "orders", "quality pairs"}
    page = (tmp_path / "comparison.html").read_text()
    assert "What limits these numbers" in page and "Audits compared" in page
    saved.report(tmp_path / "again.html")  # from the file: without what only the audits say
    assert "What limits these numbers" not in (tmp_path / "again.html").read_text()
    saved.report(tmp_path / "again.md")


def test_audits_without_margins_prompts_or_a_bias_in_common_say_so(small: dict[str, Any], tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        audited(by_length, small, out=tmp_path / name)
    margins = [tmp_path / name / "audit" / "margins.jsonl" for name in ("a", "b")]
    rows = list(read_jsonl(margins[0]))
    write_jsonl(margins[0], [{key: value for key, value in row.items() if key != "prompt_id"} for row in rows])
    by_other = cda.compare(tmp_path / "a", tmp_path / "b").pairs[0].contrasts["jargon"]
    assert isinstance(by_other, PairedMargins) and by_other.difference.n == 12  # b names the prompts
    margins[1].write_bytes(margins[0].read_bytes())
    unknown = cda.compare(tmp_path / "a", tmp_path / "b")
    assert "neither margins.jsonl names the prompts of 12 of 12 texts" in str(unknown)
    margins[1].unlink()
    assert "not paired: b: no margins.jsonl next to the audit" in str(cda.compare(tmp_path / "c", tmp_path / "b"))
    lengths = [{"prompt": "q", "base": "a", "perturbed": "a b"}, {"prompt": "r", "base": "c", "perturbed": "c d"}]
    audited(by_length, small, contrasts=lengths, biases="length", out=tmp_path / "d")
    assert "not paired: no bias in common" in str(cda.compare(tmp_path / "c", tmp_path / "d"))
    with pytest.raises(cda.RunError, match=r"two finished runs or more"):
        cda.compare(tmp_path / "c")
    with pytest.raises(cda.RecipeError, match=r"cda\.compare: give folders of runs, each by itself.*found a number"):
        cda.compare(tmp_path / "c", 3)  # type: ignore[arg-type]


def test_the_schema_of_a_row_takes_the_row(small: dict[str, Any], tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((Path(cda.__file__).parent.parent / "docs" / "schemas" / "leaderboard_row.json").read_text())
    row = json.loads(audited(by_length, small, out=tmp_path / "run").export(tmp_path / "row.json").read_text())
    jsonschema.validate(row, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(row | {"place": 1}, schema)
