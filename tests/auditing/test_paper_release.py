"""`scripts/paper_release.py`: the paper's release as ordinary files, and the paper's outcome by an audit on them."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from changed import stored
from made_release import MORE, VOTED, make_release, write_rows

from cda.data.contrasts import clean_contrasts
from cda.data.pairs import load_labels
from cda.data.triples import clean_triples
from cda.errors import RecipeError
from cda.files.jsonl import read_jsonl
from cda.recipe.load import load_recipe
from cda.stats.proportions import contingency
from scripts.paper_release import main

REAL = Path(os.environ.get("CDA_DATA", Path(__file__).parents[3] / "shared" / "data")) / "fff"
# Prefers the long side of even pairs, and neither side of the others.
SCORER = """
def score(prompts, responses):
    return [float(text.startswith("long") and text[-1] in "02468") for text in responses]
"""
SUBSETS = ("alpacaeval-easy", "donotanswer", "hep-go")


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return make_release(tmp_path / "release")


@pytest.fixture
def written(release: Path, tmp_path: Path) -> Callable[[], dict[str, list[dict[str, Any]]]]:
    """Runs the script; the rows of each file."""

    def run() -> dict[str, list[dict[str, Any]]]:
        assert main([str(release), str(tmp_path / "files")]) == 0
        return {path.stem: list(read_jsonl(path)) for path in (tmp_path / "files").glob("*.jsonl")}

    return run


@pytest.fixture
def scorer(tmp_path: Path) -> str:
    path = tmp_path / "scorer.py"
    path.write_text(SCORER, encoding="utf-8")
    return f"{path}:score"


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    """30 RewardBench pairs that the scorer ranks: right in Chat, ties elsewhere; and a row of a prior set."""
    rows = []
    for row in range(30):
        sides = {"chosen": f"{'long' if row < 10 else 'short'} {2 * row}", "rejected": f"no {row}"}
        rows.append({"prompt": f"p {row}", **sides, "subset": SUBSETS[row // 10]})
    return write_rows(tmp_path / "bench.jsonl", [*rows, {**rows[0], "subset": "shp"}])


def test_every_part_of_the_release_becomes_rows(written: Any, tmp_path: Path, capsys: Any) -> None:
    files = written()
    assert {name: len(rows) for name, rows in files.items()} == {
        "contrasts": VOTED, "votes": VOTED, "verdicts": VOTED, "triples": VOTED + MORE + 1, "labels": 11, "rewardbench": 4,
    }  # fmt: skip
    first, split = files["contrasts"][0], files["contrasts"][22]
    assert first == {"id": "jargon-1", "bias": "jargon", "prompt": "question 0", "perturbed": "long words 0",
                     "base": "plain 0", "preferred": "perturbed"}  # fmt: skip
    assert files["votes"][0] == {"id": "jargon-1", "votes": ["perturbed", "perturbed", "tie"]}
    assert split["preferred"] == "tie" and sorted(files["votes"][22]["votes"]) == ["base", "perturbed", "tie"]
    verdicts = [row["vote"] for row in files["verdicts"]]
    assert [verdicts.count(word) for word in ("tie", "base", "perturbed")] == [6, 18, 0]
    assert {row["annotator"] for row in files["verdicts"]} == {"gpt-4o"}
    assert files["triples"][0] == {
        "bias": "jargon", "prompt": "question 0", "original": "as it was 0", "rewrite": "long words 0",
        "rewrite_of_rewrite": "plain 0", "has_attribute": "no", "flipped": "yes",
    }  # fmt: skip
    assert files["rewardbench"][0] == {"size": "2B", "run": "base", "section": "Chat", "accuracy": 0.8}
    scores = {path.stem: path for path in (tmp_path / "files" / "scores" / "jargon").iterdir()}
    assert set(scores) == {"2B-base", "2B-750_3", "3B-base", "3B-750_3", "gpt-4o"}
    assert Counter(row["preference"] for row in read_jsonl(scores["gpt-4o"])) == {0: 6, -1: 18}
    before, after = (list(read_jsonl(scores[name])) for name in ("2B-base", "2B-750_3"))
    assert [row["perturbed_score"] - row["base_score"] for row in before[:VOTED]] == [1.0, -1.0] * (VOTED // 2)
    assert len(before) == VOTED + MORE and all(row["perturbed_score"] < row["base_score"] for row in after)
    assert (before[0]["id"], before[0]["preferred"]) == ("jargon-1", "perturbed")
    assert (before[29]["id"], before[29]["votes"]) == ("jargon-triple-30", [])
    said = capsys.readouterr().out
    assert (
        "jargon: 24 pairs with people's votes, 24 verdicts of LLM judges, 31 triples, 4 files of scores, 11 labelled"
        in said
    )


def test_what_cannot_be_used_is_counted(release: Path, written: Any, tmp_path: Path, capsys: Any) -> None:
    path = release / "human_annotation_data" / "jargon" / "jargon_grouped_human_annotations.json"
    rows = json.loads(path.read_text(encoding="utf-8"))
    rows[1]["response_1"] = ""
    rows[2]["entries"][0]["overall_preference"] = "both"
    path.write_text(json.dumps(rows), encoding="utf-8")
    (judged,) = (release / "llm_evaluation_data").rglob("*.jsonl")
    first = json.loads(judged.read_text(encoding="utf-8").splitlines()[0])
    other = first | {"query": f"{first['query']} \n", "judgement": "Response 1"}  # the judge tied on it before
    judged.write_text(judged.read_text(encoding="utf-8") + "\n" + json.dumps(other), encoding="utf-8")
    write_rows(release / "data" / "more.jsonl", [first])
    files = written()
    assert len(files["contrasts"]) == VOTED - 1 and files["votes"][1]["votes"][0] == "both"
    assert len(files["verdicts"]) == VOTED - 2 and files["verdicts"][0]["id"] == "jargon-3"
    assert not list((tmp_path / "files" / "scores").rglob("gpt-4o.jsonl"))  # it has no verdict on one pair
    said = capsys.readouterr().out
    assert "1 pairs left out: a text is missing" in said and "not recognised: 1 files (data/more.jsonl)" in said


def test_scores_after_a_training_against_several_biases_have_its_name(
    release: Path, written: Any, tmp_path: Path, capsys: Any
) -> None:
    scores = release / "data" / "fine_tuned_model_scores"
    together = scores / "vagueness_jargon_length" / "jargon_scored_2B_500.jsonl"
    together.parent.mkdir()
    shutil.copy(scores / "jargon" / "jargon_scored_2B.jsonl", together)
    shutil.copy(together, together.with_name("jargon_scored_2B.jsonl"))  # whose run has no name
    written()
    found = {path.stem for path in (tmp_path / "files" / "scores").glob("*.jsonl")}
    assert found == {"2B-base", "3B-base", "2B-trained", "3B-trained", "2B-vagueness_jargon_length_500"}
    said = capsys.readouterr().out
    assert (
        "not recognised: 1 files (data/fine_tuned_model_scores/vagueness_jargon_length/jargon_scored_2B.jsonl)" in said
    )


def test_missing_parts_are_said_and_wrong_folders_refused(
    release: Path, written: Any, tmp_path: Path, capsys: Any
) -> None:
    shutil.rmtree(release / "llm_evaluation_data")
    shutil.rmtree(release / "human_annotation_data")
    assert "contrasts" not in written() and "no pairs with people's votes, no verdicts" in capsys.readouterr().out
    assert "  contrasts:" not in (tmp_path / "files" / "audit.yaml").read_text(encoding="utf-8")
    (tmp_path / "empty").mkdir()
    for folder, message in (("nothing", "no such folder. The released data are at"), ("empty", "holds no released")):
        assert main([str(tmp_path / folder), str(tmp_path / "out")]) == 1
        assert message in capsys.readouterr().err
    with pytest.raises(RecipeError, match=r"audit\.release: .* run `python scripts/paper_release\.py FOLDER OUT`"):
        load_recipe("jargon", [f"audit.release={release}"])


def test_an_audit_gives_the_paper_s_outcome(written: Any, scorer: str, bench: Path, audit: Any, tmp_path: Path) -> None:
    written()
    labels = f"audit.labels={tmp_path / 'files' / 'labels.jsonl'}"
    files = ("--contrasts", tmp_path / "files" / "contrasts.jsonl", "--triples", tmp_path / "files" / "triples.jsonl")
    _, found = audit(scorer, f"audit={tmp_path / 'files' / 'audit.yaml'}", labels, *files, "--quality", bench)
    triples = stored(found, "triple_skew", "model", bias="jargon")
    assert (triples["value"], triples["n"]) == (0.5, 30)
    assert found["excluded"]["triples"] == {"seen": 31, "reasons": {"a rewrite that changed nothing": 1}}
    people = found["votes"]["jargon"]
    assert (people["human_skew"]["value"], people["human_skew"]["n"], people["rule"]) == (8 / 20, 20, "as-released")
    assert people["left_out"] == {"tie": 4}
    # Even pairs are preferred: 4 of the 8 that people prefer, and 6 of the 12 that they do not.
    assert (
        people["measured"]["skew_on_voted"]["before"]["value"] == 0.5
        and people["measured"]["miscalibration"]["before"]["value"] == 0.5
    )
    sections = found["quality_sections"]["sections"]
    shares = {one["name"]: one["found"]["accuracy"]["model"]["value"] for one in sections}
    assert shares == {"Chat": 1.0, "Safety": 0.0, "Reasoning": 0.0}
    assert found["quality_sections"]["exclusions"]["reasons"] == {"prior set": 1}
    table = found["analysis"]["jargon"]["labels"]["contingency"]
    assert [table[cell] for cell in ("both", "only_chosen", "only_rejected", "neither")] == [1, 6, 2, 1]
    assert table["exclusions"]["reasons"] == {"unparsed label": 1}
    assert found["analysis"]["jargon"]["labels"]["r_train"]["value"] == pytest.approx(4 / 80**0.5)


def test_scores_of_all_biases_are_one_file_and_vagueness_is_the_paper_s(
    release: Path, written: Any, tmp_path: Path, capsys: Any
) -> None:
    shutil.copytree(make_release(tmp_path / "vague", "vagueness"), release, dirs_exist_ok=True)
    own = release / "data" / "fine_tuned_model_scores"
    for bias in ("jargon", "vagueness"):
        rows = list(read_jsonl(own / bias / f"{bias}_scored_2B.jsonl"))
        for row in rows:  # the fixture's texts, made different by bias but for the first pair
            if bias == "vagueness":
                row["base_score"] += 0.25
        write_rows(own / "jargon_vagueness" / f"{bias}_scored_2B_500.jsonl", rows)
    data = release / "data"
    pair = {
        "query": "q",
        "chosen_response": "as it was",
        "rejected_response": "rewritten",
        "chosen_vagueness": "No",
        "rejected_vagueness": "Yes",
    }
    write_rows(data / "reward_model_counterfactual_data" / "GEMMA_counterfactuals_vagueness.jsonl", [pair])
    write_rows(data / "chatbot_arena_labeled_data" / "chatbot_arena_vagueness_labeled.jsonl", [pair])
    files = written()
    assert {row["bias"] for name in ("contrasts", "triples") for row in files[name]} == {"jargon", "vagueness-paper"}
    assert {name for row in files["labels"] for name in row if name.startswith("chosen_")} == {
        "chosen_jargon", "chosen_vagueness-paper",
    }  # fmt: skip
    assert files["counterfactuals"] == [
        {"bias": "vagueness-paper", "prompt": "q", "base": "as it was", "perturbed": "rewritten"}
    ]
    out = tmp_path / "files"
    assert list(read_jsonl(out / "supplementary" / "vagueness-paper.jsonl")) == [
        {"prompt": "q", "chosen": "as it was", "rejected": "rewritten", "chosen_vagueness-paper": "No", "rejected_vagueness-paper": "Yes"}
    ]  # fmt: skip
    assert {path.stem for path in (out / "scores").glob("*.jsonl")} == {
        "2B-base", "2B-trained", "3B-base", "3B-trained", "2B-jargon_vagueness_500",
    }  # fmt: skip
    together = list(read_jsonl(out / "scores" / "2B-base.jsonl"))
    assert {row["bias"] for row in together} == {"jargon", "vagueness-paper"} and len(together) == 2 * (VOTED + MORE)
    # Pairs that people voted on come first; of a text with two scores the first is kept, since a model gives it one.
    assert all(row["votes"] for row in together[: 2 * VOTED]) and not any(row["votes"] for row in together[2 * VOTED :])
    several = list(read_jsonl(out / "scores" / "2B-jargon_vagueness_500.jsonl"))
    assert {row["base_score"] for row in several} == {1.0}
    said = capsys.readouterr().out
    assert f"scores/2B-jargon_vagueness_500.jsonl: {VOTED + MORE} texts of several biases have another score" in said
    assert "--bias jargon --bias vagueness-paper" in said and "not recognised" not in said


@pytest.mark.skipif(not REAL.is_dir(), reason=f"public research data absent: {REAL} (set CDA_DATA)")
def test_the_real_release_gives_the_paper_s_numbers(tmp_path: Path) -> None:
    """Human skew of jargon, triples that can be used, and how often the chosen side has the bias, of other pairs each."""
    assert main([str(REAL), str(tmp_path)]) == 0
    biases = ["jargon", "structure", "length"]
    rows = [row for row in read_jsonl(tmp_path / "contrasts.jsonl") if row["bias"] == "jargon"]
    voted = [one.preferred for one in clean_contrasts(rows, ["jargon"], {}, "f").contrasts]
    assert (voted.count("perturbed"), voted.count("base")) == (19, 72)  # 20.88% of 91
    triples = clean_triples(list(read_jsonl(tmp_path / "triples.jsonl")), [*biases, "vagueness", "sycophancy"], {}, "f")
    found = Counter(triple.bias for triple in triples.triples)
    assert {bias: found[bias] for bias in biases} == {"jargon": 499, "structure": 461, "length": 499}
    labels = load_labels(str(tmp_path / "labels.jsonl"), ["jargon", "structure"])
    rates = {
        bias: contingency(own.chosen, own.rejected, own.prompt_ids).selection_rate.value for bias, own in labels.items()
    }
    assert rates == {"jargon": pytest.approx(0.544, abs=5e-4), "structure": pytest.approx(0.653, abs=5e-4)}


def test_a_benchmark_of_several_responses_is_refused_with_the_command_for_it(
    scorer: str, audit: Any, tmp_path: Path
) -> None:
    three = {"prompt": "p", "chosen": ["a", "b", "c"], "rejected": ["d", "e", "f"], "domain": "chat"}
    path = write_rows(tmp_path / "rm.jsonl", [three])
    said, _ = audit(scorer, "--quality", path, fails=True)
    assert "read as rm-bench, whose items have several responses on a side" in said
    assert f"cda quality MODEL {path}" in said
