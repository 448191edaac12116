"""The paper's release in its own layout: every part of a bias with known answers, and what is said of missing parts."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from made_release import MORE, VOTED, make_release

from cda.data import release as made
from cda.data.release import PARTS, SOURCE, missing_parts, released_contrasts, released_verdicts
from cda.errors import DataError
from cda.records import prompt_text

REAL = Path(os.environ.get("CDA_DATA", Path(__file__).parents[3] / "shared" / "data")) / "fff"


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return make_release(tmp_path / "release")


def test_pairs_have_votes_stated_majorities_and_verdicts(release: Path) -> None:
    found = released_contrasts(release, "jargon")
    assert len(found.contrasts) == VOTED and not found.exclusions.dropped and not found.votes.dropped
    first, split = found.contrasts[0], found.contrasts[22]
    assert (first.perturbed, first.base) == ("long words 0", "plain 0")
    assert (first.preferred, first.votes, first.verdicts) == ("perturbed", ("perturbed", "perturbed", "tie"), ("tie",))
    assert (split.preferred, sorted(split.votes)) == ("tie", ["base", "perturbed", "tie"])
    assert {one.tags["source"] for one in found.contrasts} == {SOURCE}
    assert [one.verdicts for one in found.contrasts[1:4]] == [("base",)] * 3


def test_triples_count_a_rewrite_that_changed_nothing(release: Path) -> None:
    found = made.released_triples(release, "jargon")
    assert len(found.triples) == VOTED + MORE and found.exclusions.seen == VOTED + MORE + 1
    assert found.exclusions.dropped == 1
    first = found.triples[0]
    assert (first.original, first.rewrite, first.rewrite_of_rewrite) == ("as it was 0", "long words 0", "plain 0")
    assert not first.has_attribute


def test_models_before_and_after_with_pairs_that_have_no_score(release: Path) -> None:
    contrasts = released_contrasts(release, "jargon").contrasts
    found = made.released_models(release, "jargon", contrasts)
    assert found.run == "750_3" and list(found.before) == list(found.after) == ["2B", "3B"]
    assert found.before["2B"].tolist() == [1.0 if row % 2 == 0 else -1.0 for row in range(VOTED)]
    assert (found.after["2B"] < 0).all()
    assert np.flatnonzero(np.isnan(found.before["3B"])).tolist() == [5]
    path = release / "data" / "fine_tuned_model_scores" / "jargon" / "jargon_scored_2B.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace("plain 3", "another 3"), encoding="utf-8")
    found = made.released_models(release, "jargon", contrasts)
    assert np.flatnonzero(np.isnan(found.before["2B"])).tolist() == [3]  # it scored another text


def test_verdicts_sections_and_labels(release: Path) -> None:
    contrasts = released_contrasts(release, "jargon").contrasts
    (verdicts,) = released_verdicts(release, "jargon", contrasts).values()
    assert [verdicts.count(word) for word in ("tie", "base", "perturbed", None)] == [6, 18, 0, 0]
    assert made.released_sections(release, "jargon", "750_3") == {
        "2B": {"before": {"Chat": 0.8, "Safety": 0.9}, "after": {"Chat": 0.75, "Safety": 0.9}}
    }
    labels = made.released_labels(release, "jargon")
    assert labels is not None and labels.sides is None and len(set(labels.prompt_ids)) == 11
    assert (labels.chosen.count(True), labels.chosen.count(False), labels.chosen.count(None)) == (7, 3, 1)


def test_missing_parts_are_named(release: Path, tmp_path: Path) -> None:
    assert missing_parts(release, ["jargon"]) == {}
    shutil.rmtree(release / "llm_evaluation_data")
    shutil.rmtree(release / "data" / "rewardbench_results")
    found = missing_parts(release, ["jargon", "length"])
    assert found["LLM verdicts"] == ["jargon", "length"] and found["human votes"] == ["length"]
    assert found["RewardBench results before the fine-tuning"] == ["all"]
    assert set(found) == {*PARTS, "RewardBench results before the fine-tuning"}
    assert released_verdicts(release, "jargon", []) == {} and made.released_labels(release, "length") is None
    assert released_contrasts(release, "length").contrasts == () == made.released_triples(release, "length").triples
    with pytest.raises(DataError, match=r"no such folder.*github\.com/anirudhb123"):
        made.release_folder(str(tmp_path / "nothing"), ["jargon"])
    with pytest.raises(DataError, match="holds no released file of length"):
        made.release_folder(str(release), ["length"])


def test_pairs_that_cannot_be_used_are_counted(release: Path) -> None:
    path = release / "human_annotation_data" / "jargon" / "jargon_grouped_human_annotations.json"
    rows = json.loads(path.read_text(encoding="utf-8"))
    rows[0]["response_1"] = rows[0]["response_2"]
    rows[1]["response_1"] = ""
    rows[2]["entries"][0]["overall_preference"] = "both"
    path.write_text(json.dumps(rows), encoding="utf-8")
    found = released_contrasts(release, "jargon")
    assert found.exclusions.reasons == {"a side is missing": 1, "identical sides": 1}
    assert found.votes.reasons == {"unreadable vote 'both'": 1} and len(found.contrasts) == VOTED - 2


@pytest.mark.skipif(not REAL.is_dir(), reason=f"{REAL} is absent")
def test_the_real_release() -> None:
    missing = missing_parts(REAL, ["jargon", "structure", "length"])
    assert missing == {"labels of the training sample": ["length"]}
    counts = {bias: len(made.released_triples(REAL, bias).triples) for bias in ("jargon", "structure", "length")}
    assert counts == {"jargon": 499, "structure": 461, "length": 499}


def test_a_judge_who_named_both_sides_has_no_verdict(release: Path) -> None:
    (path,) = (release / "llm_evaluation_data").rglob("*.jsonl")
    contrasts = released_contrasts(release, "jargon").contrasts
    (before,) = released_verdicts(release, "jargon", contrasts).values()
    first, *rest = path.read_text(encoding="utf-8").splitlines()
    at = next(row for row, one in enumerate(contrasts) if prompt_text(one.prompt) == json.loads(first)["query"])
    row = json.loads(first)
    other = row | {"query": f"{row['query']} \n", "judgement": "tie" if before[at] != "tie" else "response_1"}
    for lines in ([first, json.dumps(other), *rest], [json.dumps(other), first, *rest], [first, first, *rest]):
        path.write_text("\n".join(lines), encoding="utf-8")
        (found,) = released_verdicts(release, "jargon", contrasts).values()
        assert found[at] == (before[at] if lines[1] == first == lines[0] else None)
        assert found[:at] + found[at + 1 :] == before[:at] + before[at + 1 :]
