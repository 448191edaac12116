"""Files of a recipe: each read once in a run; columns and settings named where they cannot be used."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cda.auditing.audit import audit_texts
from cda.counterfactuals import label
from cda.counterfactuals.triples import read_responses
from cda.data import load
from cda.errors import DataError
from cda.files.jsonl import read_jsonl, write_jsonl
from cda.llm.money import Account
from cda.pipeline import plan
from cda.recipe.load import Opened, load_recipe
from cda.recipe.sections import AuditSection
from cda.resources.llm_access import llm_access, llm_counts
from cda.resources.sources import audit_inputs, load_pairs


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file was read."""
    found: Counter[str] = Counter()

    def counted(path: Path) -> Iterator[dict[str, Any]]:
        found[path.name] += 1
        return read_jsonl(path)

    monkeypatch.setitem(load._READERS, ".jsonl", counted)
    return found


def test_a_training_with_votes_reads_each_file_once(tmp_path: Path, read: Counter[str]) -> None:
    files = {
        name: tmp_path / f"{name}.jsonl" for name in ("pairs", "taught", "contrasts", "votes", "triples", "quality")
    }
    sides = [{"prompt": f"Why does dish {row} boil over?", "chosen": "Use a pan.", "rejected": f"No idea {row}."}
             for row in range(12)]  # fmt: skip
    contrasts = [
        {"id": f"c{row}", "bias": "jargon", "prompt": f"How do I cook dish {row}?", "perturbed": f"Utilize pan {row}.",
         "base": f"Use pan {row}."}
        for row in range(6)
    ]  # fmt: skip
    triples = [
        {"bias": "jargon", "prompt": f"What is dish {row}?", "original": f"Utilize optimal parameters {row}.",
         "rewrite": f"Use a pan {row}.", "rewrite_of_rewrite": f"Utilize optimal parameters accordingly {row}.", "has_attribute": True}
        for row in range(4)
    ]  # fmt: skip
    write_jsonl(files["pairs"], sides)
    write_jsonl(files["quality"], sides)
    write_jsonl(files["taught"], [{**one, "prompt": f"{one['prompt']} Twice?"} for one in contrasts])
    write_jsonl(files["contrasts"], contrasts)
    write_jsonl(files["votes"], [{"id": one["id"], "vote": "base"} for one in contrasts])
    write_jsonl(files["triples"], triples)
    words = [f"data.pairs={files['pairs']}", f"data.contrasts={files['taught']}", f"run.folder={tmp_path / 'run'}"]
    words += [f"audit.{name}={files[name]}" for name in ("contrasts", "votes", "triples", "quality")]
    loaded = load_recipe("jargon", words)
    plan.check(loaded)
    plan.plan(loaded)
    (tmp_path / "labelled").mkdir()
    label.run(loaded, tmp_path / "labelled")
    audit_inputs(loaded).existing_prompts()
    audit_inputs(loaded).labels()
    texts = audit_texts(replace(loaded, consent="given"))
    assert len(texts.contrasts) > 6 and texts.triples.kept and len(texts.pairs) == 12
    assert read == dict.fromkeys((file.name for file in files.values()), 1)


def test_models_beside_a_cache_share_one_budget_and_runs_share_nothing(tmp_path: Path) -> None:
    loaded = load_recipe("jargon", [f"run.folder={tmp_path / 'run'}", "llm.model=m", "llm.budget_usd=1",
                                    "llm.prices.m.input=1", "llm.prices.m.output=1", "llm.prices.k.input=1",
                                    "llm.prices.k.output=1", "llm.base_url=http://127.0.0.1:9/v1"])  # fmt: skip
    llm = llm_access(loaded)
    one, two = llm.client(), llm.named("k").client()
    assert one is llm_access(loaded).client() and one is not two
    purses = {id(asked.purse) for asked in map(_account, (one, two))}
    assert len(purses) == 1, "one budget for all models beside a cache"
    assert set(llm_counts(loaded.opened)) == {"m", "k"}
    apart = load_recipe("jargon", [f"run.folder={tmp_path / 'other'}"])
    assert apart.opened is not loaded.opened and llm_counts(apart.opened) == {}


def _account(counted: Any) -> Account:
    found: Account = counted.llm.client.account
    return found


def test_an_error_leaves_nothing_behind() -> None:
    opened = Opened()
    with pytest.raises(ZeroDivisionError):
        opened.once("x", lambda: 1 / 0)
    assert opened.once("x", lambda: 2.0) == 2.0
    assert opened.once("x", lambda: 3.0) == 2.0


def test_prompts_under_another_name_are_told_how_to_be_mapped(tmp_path: Path) -> None:
    path = tmp_path / "theirs.jsonl"
    path.write_text(json.dumps({"asked": "Why?", "chosen": "So.", "rejected": "Thus."}) + "\n", encoding="utf-8")
    with pytest.raises(DataError) as error:
        load_pairs(str(path), "train", {}, "data.columns")
    assert "no usable pair" in str(error.value)
    assert "the columns are asked, chosen, rejected" in str(error.value)
    assert "data.columns.prompt=<your column>" in str(error.value)
    assert len(load_pairs(str(path), "train", {"prompt": "asked"}, "data.columns").pairs) == 1


def test_one_response_is_read_once_and_not_with_and_without_the_attribute() -> None:
    audit = AuditSection()
    rows = [{"prompt": "q", "response": "a", "has_attribute": word} for word in ("", "yes")]
    rows += [{"prompt": "q ", "response": [{"role": "assistant", "content": "a\r\n"}], "has_attribute": "yes"}]
    found, exclusions = read_responses(rows, "f.csv", audit)
    assert [(one.response, one.has_attribute) for one in found] == [("a", True)]
    assert dict(exclusions.reasons) == {"duplicate": 2}
    with pytest.raises(
        DataError, match=r"f\.csv: rows 1, 2, 3, 4: the same response, and has_attribute says yes and no"
    ):
        read_responses([*rows, rows[0] | {"has_attribute": "no"}], "f.csv", audit)


def test_a_training_measures_the_biases_of_its_file_that_it_does_not_teach_and_an_audit_alone_those_asked_for(
    tmp_path: Path,
) -> None:
    rows = [
        {"bias": bias, "prompt": f"Why {row}?", "base": f"plain {row}", "perturbed": f"more {row}", "preferred": "base"}
        for bias in ("jargon", "structure", "charm")
        for row in range(3)
    ]
    write_jsonl(tmp_path / "voted.jsonl", rows)
    loaded = load_recipe("jargon", [f"audit.contrasts={tmp_path / 'voted.jsonl'}", "audit.triples=null"])
    texts = audit_texts(loaded)
    assert texts.available["structure"] == 3 and audit_inputs(loaded).untaught() == ["structure"]
    assert {"jargon", "structure", "length", "vagueness"} <= set(texts.available)  # the others are the embedded ones
    assert texts.excluded["contrasts"].reasons == {"of a bias without a bias file (charm)": 3}
    alone = audit_texts(replace(loaded, only_audit=True))
    assert set(alone.available) == {"jargon", "jargon-second-turn"} & set(alone.available)
    assert alone.excluded["contrasts"].reasons == {"of another bias (structure)": 3, "of another bias (charm)": 3}


def test_votes_on_contrasts_that_are_still_to_be_rewritten_are_refused(tmp_path: Path) -> None:
    (tmp_path / "charm.yaml").write_text(
        "like: vagueness\nname: charm\ndescription: Charming filler.\n", encoding="utf-8"
    )
    (tmp_path / "votes.csv").write_text("id,vote\nx1,base\n", encoding="utf-8")
    loaded = load_recipe(str(tmp_path / "charm.yaml"), [f"audit.votes={tmp_path / 'votes.csv'}"])
    with pytest.raises(DataError, match=r"votes\.csv: none of its 1 ids .* those of charm are still to be rewritten"):
        audit_inputs(loaded).check_opinions()
