"""`cda inspect`: what it finds in a run, a file, or makes; that its numbers are known ones; and every mistake in words."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Callable
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from changed import changed
from made_audits import make_audit
from page_checks import words as page_words
from replies import reply
from typer.testing import CliRunner

from cda.auditing.report import audit_document
from cda.biases import load_bias
from cda.cli import app
from cda.counterfactuals import label, synthesize
from cda.data.load import load_rows
from cda.embedded.rules import RuleRewriter
from cda.files.jsonl import write_json, write_jsonl
from cda.inspection.inspect import with_rewrites
from cda.inspection.sources import rewrites_of_file, rewrites_of_run
from cda.pipeline.stages import run_stage
from cda.recipe.load import load_recipe
from cda.records import Exclusions, RewriteRequest, user_prompt
from cda.results.base import save
from cda.run import RunFolder

N_PAIRS = 24
TRIPLES = [
    {
        "bias": "jargon", "prompt": f"How do I cook dish {row}?", "has_attribute": row % 2,
        "original": f"Use pan {row} and stir the rice slowly until it is done, then let it rest.",
        "rewrite": f"Utilize pan {row} and agitate the rice incrementally until completion, subsequently permitting repose.",
        "rewrite_of_rewrite": f"Use pan {row} and stir the rice bit by bit until done, then let it rest.",
        "rewards_model": [float(row), row + 2.0, row - 1.0],
    }
    for row in range(6)
]  # fmt: skip


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe without settings of the training, which take seconds to check."""
    file = tmp_path_factory.mktemp("recipe") / "mine.yaml"
    file.write_text("biases: [jargon]\nmodel: {name_or_path: embedded}\ndata: {pairs: embedded}\n", encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, recipe: Path) -> Path:
    """A run whose rewrites were made by rules, with an audit's triples beside them."""
    folder = tmp_path_factory.mktemp("inspect") / "jargon"
    words = [f"data.max_pairs={N_PAIRS}", f"run.folder={folder}", "synthesize.counterfactuals=12"]
    loaded, made = load_recipe(str(recipe), words), RunFolder(folder)
    run_stage(label.stage(loaded), lambda out: label.run(loaded, out), made, loaded.opened)
    run_stage(synthesize.stage(loaded, made), lambda out: synthesize.run(loaded, made, out), made, loaded.opened)
    return folder


@pytest.fixture
def triples(tmp_path: Path) -> Path:
    file = tmp_path / "triples.jsonl"
    write_jsonl(file, TRIPLES)
    return file


def asked(*words: object) -> Any:
    return CliRunner().invoke(app, ["inspect", *map(str, words)])


def told(*words: object) -> str:
    """All that a command prints, lines joined; it has to succeed."""
    result = asked(*words)
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def with_page(*words: object) -> str:
    """The same, and what its page says."""
    with TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        printed = told(*words, "--html", page)
        return f"{printed} {unescape(page_words(page.read_text(encoding='utf-8')))}"


def test_training_pairs_stand_beside_what_they_were_made_from(run: Path) -> None:
    material = rewrites_of_run(run)
    originals = {row["rejected"][0]["content"] for row in load_rows(str(run / "label" / "pairs.jsonl"))}
    assert len(material.rewrites) == 12 and {rewrite.original for rewrite in material.rewrites} <= originals
    assert all(rewrite.direction == "add" and rewrite.rewrite not in originals for rewrite in material.rewrites)
    ((bias, lost),) = material.lost
    assert (bias, lost.tried, lost.reasons) == ("jargon", 13, {"too few places to change": 1})


def test_the_report_of_a_run_holds_its_rewrites_after_the_examples(run: Path, tmp_path: Path) -> None:
    audit = make_audit({"jargon": (0.88,)}, quality=(0.75,), others=())
    plain = audit_document(audit)
    document = with_rewrites(plain, RunFolder(run))
    titles = [section.title for section in document.sections]
    (section,) = [section for section in document.sections if section.id == "rewrites"]
    assert len(section.texts) == 1 and section.folded and section.tables[0].rows[0][:2] == ("jargon, added", "12")
    assert titles.index("Rewrites") == [part.id for part in document.sections].index("examples") + 1
    assert "### jargon, added, training pairs" in document.markdown() and "<ins>" in document.page()
    assert with_rewrites(plain, RunFolder(tmp_path)) is plain


def test_objectives_that_share_a_rewrite_show_it_once(run: Path, tmp_path: Path) -> None:
    rows = load_rows(str(run / "synthesize" / "train.jsonl"))
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    others = [{**row, "kind": kind} for row in rows for kind in ("supplementary", "paired")]
    write_jsonl(copy / "synthesize" / "train.jsonl", [*rows, *others, {**rows[0], "source_id": "of a file"}])
    assert len(rewrites_of_run(copy).rewrites) == 12


def test_the_same_seed_shows_the_same(run: Path) -> None:
    first, again, other = (told(run, "--n", 3, "--seed", seed) for seed in (1, 1, 2))
    assert first == again != other


def test_a_recipe_shows_what_its_run_holds_and_says_when_it_has_changed(run: Path, recipe: Path) -> None:
    words = [f"data.max_pairs={N_PAIRS}", f"run.folder={run}", "--model", "none", "--n", 1]
    same = with_page(recipe, *words, "synthesize.counterfactuals=12")
    assert "run jargon" in same and "The recipe has changed" not in same
    changed = with_page(recipe, *words, "synthesize.counterfactuals=11")
    assert "The recipe has changed since these rewrites were made (synthesize.counterfactuals: 12 → 11)" in changed
    assert "embedded answers, by rules" in with_page(recipe, *words, "--fresh")


def test_triples_have_two_rewrites_each_and_the_rewards_that_were_kept(triples: Path) -> None:
    material = rewrites_of_file(str(triples))
    first, back = material.rewrites[:2]
    assert (first.direction, first.rewards) == ("add", (0.0, 2.0))
    assert (back.direction, back.original, back.rewards) == ("remove", first.rewrite, (2.0, -1.0))
    # Half of the first rewrites and half of the second ones add: +2 and −3 in turn.
    text = with_page(triples)
    assert text.count(" −0.50 [") == 2 and "Rewards by the audited model" in text
    write_jsonl(triples, [{**row, "rewards_model": ["a", None, {}]} for row in TRIPLES])
    assert "audited model" not in with_page(triples, "--n", 1)


def test_the_worst_come_first(triples: Path) -> None:
    rows = [{**row, "rewards_model": [0.0, 9.0 if at == 4 else 1.0, 0.0]} for at, row in enumerate(TRIPLES)]
    write_jsonl(triples, rows)
    assert told(triples, "--worst", "reward", "--n", 1).count("How do I cook dish 4?") == 2
    long = {**TRIPLES[2], "rewrite": f"{TRIPLES[2]['rewrite']} Wait! Stop! Look!\n- one\n- two\n- three"}
    write_jsonl(triples, [*TRIPLES[:2], long, *TRIPLES[3:]])
    assert "How do I cook dish 2?" in told(triples, "--worst", "drift", "--n", 1)
    assert "list lines changed" in told(triples, "--worst", "failed", "--n", 9)


def test_a_bias_of_ones_own_goes_both_ways(tmp_path: Path) -> None:
    text = (Path(__file__).parent.parent.parent / "cda" / "biases" / "jargon.yaml").read_text(encoding="utf-8")
    file, page = tmp_path / "office.yaml", tmp_path / "page.html"
    file.write_text(text.replace("name: jargon", "name: office", 1), encoding="utf-8")
    text = told(file, "--n", 3, "--html", page)
    assert text.count("── office, added, made now") == 3 and f"Page: {page}" in text
    assert text.count("── office, removed, made now, rewritten back") == 3
    assert "Rewrites: office" in page.read_text(encoding="utf-8")


def test_own_responses_are_rewritten_away_from_what_they_are(tmp_path: Path, recipe: Path) -> None:
    rows = [{"prompt": "Why?", "response": text, "has_attribute": "yes"} for text in (TRIPLES[0]["rewrite"], " ")]
    write_jsonl(tmp_path / "mine.jsonl", rows)
    text = with_page(recipe, "--model", "none", "--responses", tmp_path / "mine.jsonl", f"run.folder={tmp_path}/x")
    assert "── jargon, removed, made now" in text and "1 of 2 dropped (1 no response)" in text


class Writer:
    """An LLM that labels by long words and, asked to add jargon, opens every answer with the same words; or refuses."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.n_rewrites = 0
        self.bias = load_bias("jargon")

    def __call__(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        system, user = (message["content"] for message in body["messages"])
        shown = dict(re.findall(r"<<<([A-Z0-9 ]+)>>>\n(.*?)\n<<<END>>>", user, re.S))
        if system.startswith("You label"):
            shows = "yes" if self.bias.shows(shown["RESPONSE"]) else "no"
            text = json.dumps({"reasoning": "", "query": "no", "response": shows})
        else:
            with self.lock:
                self.n_rewrites += 1
            if "full of" in user:
                request = RewriteRequest(user_prompt("q"), shown["RESPONSE"], "add")
                text = f"Methodologically speaking, {RuleRewriter().rewrite([request], self.bias)[0].text}"
            else:
                text = "I'm sorry, but I can't help with that."
        return reply(text, "w")


def test_what_an_llm_wrote_is_shown_even_where_the_gate_rejects_it(
    serve: Callable[[Any], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    writer = Writer()
    server = ("llm.model=w", f"llm.base_url={serve(writer)}")
    words = [recipe, "--fresh", "--model", "none", *server, f"run.folder={tmp_path}/run"]
    text = with_page(*words, "--n", 4)
    assert "rewriting and labelling for jargon: about 24 calls of w" in text
    assert "100% [51, 100], n = 4" in text and "refusal 4 failed" in text
    assert "can't help" in text  # what the gate rejected
    assert re.search(r"methodologically speaking.* jargon, added 100% \[", text)  # all of them open with it
    asked_before = writer.n_rewrites
    worst = told(*words, "--n", 4, "--worst", "failed")
    assert writer.n_rewrites == asked_before  # all of it came out of the cache
    assert worst.count(" failed: refusal;") == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["RUN", "--n", "0"], "--n 0: 1 or more is needed"),
        (["RUN", "--worst", "rewrd"], "Did you mean 'reward'?"),
        (["RUN", "--worst", "reward"], "there are no rewards here; name a model with --model TARGET"),
        (["RUN", "--bias", "jargn"], "--bias jargn: no bias of run jargon. Did you mean 'jargon'?"),
        (["RUN", "--fresh"], "give a recipe or a bias"),
        (["RUN", "seed=3"], "seed=3: has no effect"),
        (["RUN", "--html", "/nowhere/at/all/x.html"], "name a file in a folder that exists"),
        (["EMPTY"], "no run in this folder"),
        (["LABELLED"], "holds no rewrites (finished: label)"),
        (["jargn"], "Did you mean 'jargon'?"),
        (["missing.jsonl"], "missing.jsonl"),
        (["NAMELESS"], "no column 'bias'; say whose rewrites they are with --bias NAME"),
        (["FOREIGN"], "emoji: no built-in bias; give the bias file with --bias FILE"),
        (["OTHERWISE"], "no column 'original'. Found: bias, has_attribute, prompt, rewards_model, rewrite, "
                        "rewrite_of_rewrite, text. Name it original in the file"),
    ],
)  # fmt: skip
def test_mistakes_are_told(words: list[str], message: str, run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    nameless = [{key: value for key, value in row.items() if key != "bias"} for row in TRIPLES]
    otherwise = [{"text" if key == "original" else key: value for key, value in row.items()} for row in TRIPLES]
    write_jsonl(tmp_path / "nameless.jsonl", nameless)
    write_jsonl(tmp_path / "otherwise.jsonl", otherwise)
    write_jsonl(tmp_path / "foreign.jsonl", [{**row, "bias": "emoji"} for row in TRIPLES])
    (tmp_path / "labelled" / "label").mkdir(parents=True)
    write_json(tmp_path / "labelled" / "label" / "stage.json", {"stage": "label"})
    names = ("empty", "labelled", "nameless.jsonl", "otherwise.jsonl", "foreign.jsonl")
    places = {"RUN": run, **{name.split(".")[0].upper(): tmp_path / name for name in names}}
    result = asked(*(places.get(word, word) for word in words))
    assert result.exit_code == 2 and message in " ".join(result.stderr.split()) and "Traceback" not in result.output


def test_the_failures_of_an_audit_are_told_beside_its_triples(tmp_path: Path) -> None:
    audit = tmp_path / "run" / "audit"
    audit.mkdir(parents=True)
    write_jsonl(audit / "triples.jsonl", TRIPLES)
    settings = {"biases": [load_bias("jargon").model_dump(mode="json")]}
    write_json(audit / "stage.json", {"stage": "audit", "settings": settings})
    lost = Exclusions(9, {"rewrite: unchanged": 3})
    whole = make_audit({"jargon": (0.88,)}, quality=(0.75,), others=(), rate=True)
    save(changed(whole, "excluded", {"triples of jargon": lost}), audit / "audit.json")
    text = with_page(tmp_path / "run", "--n", 1)
    assert "3 of 9 tried (audit triples, both directions)" in text and "rewrite: unchanged 3 failed" in text


def test_a_recipe_whose_model_cannot_be_had_says_how_to_do_without(run: Path, recipe: Path, tmp_path: Path) -> None:
    words = [f"run.folder={run}", f"model.name_or_path={tmp_path}"]
    result = asked(recipe, *words)
    assert result.exit_code == 2 and str(tmp_path) in result.stderr
    assert "error: --model none shows the rewrites without rewards" in result.stderr
    assert "by rules" in told(recipe, *words, "--model", "none", "--n", 1)
