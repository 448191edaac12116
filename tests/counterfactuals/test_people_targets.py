"""People's votes as targets: half of the prompts teach, and the audit measures by the others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cda.cli import app
from cda.counterfactuals.people_targets import people_targets, with_people
from cda.dosing.stage import is_wanted
from cda.errors import DataError
from cda.recipe.load import LoadedRecipe, load_recipe
from cda.records import prompt_id
from cda.resources.sources import audit_inputs, teaching_prompt

PEOPLE = "objectives=[{kind: shift, target: people}, keep]"


def voted_file(folder: Path, n: int, liked: Sequence[str] = ("perturbed", "base", "base", "base")) -> Path:
    """Contrasts of jargon on n prompts, of which people like the sides of `liked` in turn."""
    rows = [
        {"prompt": f"Question {at}?", "base": f"Plain {at}.", "perturbed": f"Abstruse {at}.", "bias": "jargon",
         "votes": [liked[at % len(liked)]] * 3}
        for at in range(n)
    ]  # fmt: skip
    path = folder / "voted.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def loaded(folder: Path, n: int, *words: str) -> LoadedRecipe:
    return load_recipe("jargon", ["synthesize.supplementary=6", f"audit.contrasts={voted_file(folder, n)}", *words])


def test_half_of_the_votes_set_the_target_and_the_audit_has_the_others(tmp_path: Path) -> None:
    recipe = loaded(tmp_path, 120, PEOPLE)
    contrasts = audit_inputs(recipe).contrasts().contrasts
    teaching = [each for each in contrasts if teaching_prompt(each.prompt)]
    left = [each for each in contrasts if each.votes]
    assert len(contrasts) == 120 and 40 <= len(teaching) <= 80
    assert {prompt_id(each.prompt) for each in left}.isdisjoint(prompt_id(each.prompt) for each in teaching)
    assert len(left) + len(teaching) == 120
    voted = audit_inputs(loaded(tmp_path, 120)).contrasts().contrasts
    assert all(each.votes for each in voted)  # without the target all votes measure
    own = [each for each in voted if teaching_prompt(each.prompt)]
    plain = sum(each.votes[0] == "base" for each in own) / len(own)
    assert people_targets(recipe) == {"jargon": round(plain, 2)}
    first, second = with_people(recipe).objectives
    assert first.target == {"jargon": round(plain, 2)} and second.kind == "keep"


def test_votes_that_change_make_another_mix(tmp_path: Path) -> None:
    before = people_targets(loaded(tmp_path, 120, PEOPLE))["jargon"]
    voted_file(tmp_path, 120, ["perturbed", "perturbed", "base"])
    assert people_targets(load_recipe("jargon", ["synthesize.supplementary=6", f"audit.contrasts={tmp_path / 'voted.jsonl'}", PEOPLE]))["jargon"] < before  # fmt: skip


@pytest.mark.parametrize("words", [(), ("audit.contrasts=embedded",)])
def test_too_few_votes_are_refused_in_a_sentence(tmp_path: Path, words: tuple[str, ...]) -> None:
    with pytest.raises(DataError, match=r"needs people's votes on 40 prompts.*jargon: \d+\. Give contrasts with votes"):
        people_targets(loaded(tmp_path, 20, PEOPLE, *words))


def test_a_bias_with_few_votes_beside_one_with_many_is_a_tie(tmp_path: Path) -> None:
    recipe = loaded(tmp_path, 120, PEOPLE, "biases=[jargon,length]")
    assert people_targets(recipe)["length"] == 0.5


def test_no_dose_is_chosen_on_top_of_the_votes_target_unless_asked_for(tmp_path: Path) -> None:
    own = f"audit.contrasts={voted_file(tmp_path, 120)}"
    assert is_wanted(load_recipe("jargon", [own]))
    assert not is_wanted(load_recipe("jargon", [own, PEOPLE]))
    assert is_wanted(load_recipe("jargon", [own, PEOPLE, "dose.on=yes"]))


def test_the_mix_is_taught_the_share_and_says_so(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ["data.max_pairs=30", "synthesize.supplementary=6", f"audit.contrasts={voted_file(tmp_path, 120)}", PEOPLE]
    found = CliRunner().invoke(app, ["synthesize", "jargon", f"run.folder={run}", *words])
    assert found.exit_code == 0, found.output
    rows = [json.loads(line) for line in (run / "synthesize" / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    [share] = {row["target"] for row in rows if row["kind"] == "shift"}
    assert 0.6 < share < 0.9 and f"jargon {share:g}; the other half is audited" in " ".join(found.output.split())
