"""`cda data` and `cda.audit_data`: what planted pairs teach, labels from files and LLMs, groups, files written, mistakes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any

import pytest
from replies import Answer, reply
from typer.testing import CliRunner, Result

import cda
from cda.biases import load_bias
from cda.cli import app
from cda.counterfactuals import label
from cda.errors import CdaError, DataError, RecipeError
from cda.inert import width
from cda.preferences.data_page import odds
from cda.recipe.load import load_recipe
from cda.report.glance import MAX_COLUMNS, MAX_LINES
from cda.results.base import Test
from cda.results.effects import Contingency, LogOdds
from cda.rewriting.labels import exhibits

LIST = "- one point and\n- another point and\n- a third point and\n- a last point"
PROSE = "one point and another point and a third point and a last point"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def rows(n: int = 60) -> list[dict[str, Any]]:
    """Lists against prose: of `web` chosen in four of five, of `forum` in one of two."""
    made = []
    for number in range(n):
        source = "web" if number % 2 else "forum"
        listed = number // 2 % 5 != 0 if source == "web" else number // 2 % 2 == 0
        sides = (LIST, PROSE) if listed else (PROSE, LIST)
        made.append(
            {"prompt": f"Question {number}?", "chosen": f"{sides[0]} {'so ' * (number % 7)}", "rejected": f"{sides[1]} {'so ' * (number % 9)}",
             "source": source, "topic": "all", "year": 1960 + number if number else None}
        )  # fmt: skip
    return made


def written(rows: list[dict[str, Any]], name: str = "pairs.jsonl") -> str:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["data", *words])


def contingency(bias: Any) -> Contingency:
    assert isinstance(bias.contingency, Contingency)
    return bias.contingency


def test_planted_choices_come_back_in_every_file() -> None:
    result = run(
        written(rows()),
        "--bias",
        "structure",
        "--bias",
        "length",
        "--by",
        "source",
        "--by",
        "year",
        "--out",
        "found",
        "--figures",
        "svg",
    )
    assert result.exit_code == 0, result.output
    found = cda.load("found")
    assert isinstance(found, cda.DataAudit)
    structure = found.bias("structure")
    table = contingency(structure)
    assert (table.both, table.only_chosen, table.only_rejected, table.neither) == (0, 39, 21, 0)
    assert structure.labelled_by == "measured list lines"
    assert not isinstance(structure.odds, cda.Missing) and isinstance(structure.odds.crude, LogOdds)
    assert structure.odds.crude.estimate.value == pytest.approx(log(39 / 21))
    assert structure.odds.adjusted_for == ("number of words",)
    assert isinstance(structure.rule_accuracy, cda.Estimate) and structure.rule_accuracy.value == 39 / 60
    shares = {level.name: level.of("chosen", "data") for level in found.by["source"]["structure"].levels}
    assert {name: share and share.value for name, share in shares.items()} == {"forum": 15 / 30, "web": 24 / 30}
    year = found.by["year"]["structure"]
    assert (year.kind, year.n_missing, [level.n for level in year.levels]) == ("numbers", 1, [20, 19, 20])
    assert "year: pairs without a value, in no level: 1." in Path("found/data.md").read_text(encoding="utf-8")
    page = Path("found/report.html").read_text()
    assert "65% [52, 76] of the 60 pairs" in page and "65% \\[52, 76\\]" in Path("found/data.md").read_text()
    assert "Written: found/report.html" in result.output
    names = {path.name for path in Path("found/figures").iterdir()}
    assert names == {"captions.md", "choices.svg", "contingency.svg", "by-source.svg", "by-year.svg"}


def test_python_and_the_command_give_the_same_and_suggest_a_column() -> None:
    found = cda.audit_data(rows(), biases="structure", progress=False)
    command = run(written(rows()), "--bias", "structure", "--out", "same")
    again = cda.load("same")
    assert isinstance(again, cda.DataAudit)
    assert again.model_dump(exclude={"pairs"}) == found.model_dump(exclude={"pairs"})
    assert "Columns that may say where pairs come from: source; see each with --by source" in command.output
    assert found.folder is not None and found.folder.name.startswith("data-of-") and not Path(found.pairs).is_absolute()
    frame = found.to_frame()
    own = frame[frame.measure == "selection_rate"].iloc[0]
    assert (own.bias, own.value, own.n) == ("structure", found.bias("structure").contingency.selection_rate.value, 60)
    assert frame.unit.dropna().isin(["share", "correlation", "log odds"]).all()
    found.report("page.html")
    assert Path("page.html").is_file()


def test_what_an_option_asked_for_stands_on_the_first_screen_with_five_biases() -> None:
    result = run("embedded", "--rows", "rows.jsonl", "--by", "domain", "--out", "found")
    lines = result.output[result.output.index("In the embedded texts") :].strip().split("\n")
    assert len(lines) <= MAX_LINES and all(width(line) <= MAX_COLUMNS for line in lines), result.output
    weights = [line for line in lines if line.startswith("Biases and length alone tell ")]
    assert len(weights) == 1 and re.search(r"Effective n \d+ of 336\.$", weights[0])
    assert any(line.startswith("The choices mind length differently by domain") for line in lines)
    assert "Written: found/report.html, data.md, data.json; ./rows.jsonl" in lines
    assert any(line.startswith("structure  ▲ favoured") for line in lines)
    assert "3 more: ? length 55%, ? sycophancy 20%, ? vagueness 54%" in lines


def two_marks(n: int = 20) -> list[dict[str, str]]:
    """Praise on the chosen and vagueness on the rejected side of the same half of the pairs."""
    marks = ("Great question! ", " It may perhaps depend on various factors.")
    return [
        {"prompt": f"Question {at}?", "chosen": f"{first}It is {at} so.", "rejected": f"It is not {at} so.{last}"}
        for at in range(n)
        for first, last in [marks if at % 2 else ("", "")]
    ]


@pytest.mark.parametrize("n", [1, 2, 10, 20, 40])
def test_biases_that_always_go_together_have_a_reason_in_place_of_odds(n: int) -> None:
    found = cda.audit_data(two_marks(n), biases=["sycophancy", "vagueness"], rows="rows.jsonl", progress=False)
    for bias, side in (("sycophancy", "chosen"), ("vagueness", "rejected")):
        odds = found.bias(bias).odds
        assert not isinstance(odds, cda.Missing) and isinstance(odds.adjusted, cda.Missing), odds
        if n >= 20 and bias == "sycophancy":
            assert f"in all {n // 2} pairs that differ in it the {side} side has more" in odds.adjusted.reason
        elif n >= 20:
            assert odds.adjusted.reason == "no pair differs in it whose choice is not told by sycophancy already"
        else:
            assert "differ" in odds.adjusted.reason


def test_a_call_that_fails_leaves_no_empty_folder() -> None:
    foreign = [{"prompt": "Warum?", "chosen": f"Это так {at}.", "rejected": "Это не так."} for at in range(12)]
    with pytest.raises(CdaError, match="English only"):
        cda.audit_data(foreign, biases="jargon", out="failed", progress=False)
    assert not Path("failed").exists()


def test_the_shipped_biases_by_name_and_by_default_have_one_folder() -> None:
    file = written(two_marks())
    names = ["vagueness", "length", "structure", "jargon", "sycophancy"]
    folders = [cda.audit_data(file, biases=each, progress=False).folder for each in (None, names, "jargon")]
    assert folders[0] == folders[1] != folders[2]


def test_too_few_pairs_are_followed_by_where_more_come_from() -> None:
    pairs = [
        {key: row[key] for key in ("prompt", "chosen", "rejected")} for row in rows(60) if row["source"] == "forum"
    ]
    file = written(pairs)
    lacking = cda.audit_data(file, biases="structure", progress=False).document().next
    assert lacking is not None and not lacking.command()
    assert re.fullmatch(
        r"nothing is shown; ± 10 points need about (\d+) pairs with structure on one side, (\d+) more than there are: "
        r"collect about \2 further pairs of this kind, such as from the same source",
        lacking.why,
    )
    limited = cda.audit_data(file, biases="structure", limit=20, progress=False).document().next
    assert limited is not None and limited.why.endswith(" more than there are: leave out --limit, which left 10")
    assert limited.command() == f"cda data {file} --bias structure"


def test_an_interval_of_odds_that_says_nothing_is_no_number() -> None:
    def of(low: float, value: float, high: float) -> str:
        estimate = cda.Estimate(
            value=log(value), low=log(low), high=log(high), n=6, n_prompts=6, unit="log odds", method="t"
        )
        return odds(LogOdds(estimate=estimate, standard_error=1.0, test=Test(p_value=0.5, method="t")))

    assert of(0.00037, 2.1, 11859) == of(0.09, 1, 9.5) == "not known: too few pairs differ"
    assert of(0.3, 2.1, 15) == "2.1 [0.30, 15]"
    assert of(40, 500, 6000) == "500 [40, 6,000]"  # wide, but it says that they are high


def test_labels_of_a_file_without_texts_by_row_or_by_themselves() -> None:
    words = [("Yes", "No")] * 24 + [("No", "[Yes]")] * 12 + [("Yes", "Yes")] * 3 + [("", "No")]
    labels = written([{"chosen_list": first, "rejected_list": second} for first, second in words], "labels.jsonl")
    named = ["--column", "chosen_structure=chosen_list", "--column", "rejected_structure=rejected_list"]
    assert run(labels, "--labels", labels, *named, "--out", "alone").exit_code == 0
    alone = cda.load("alone")
    assert isinstance(alone, cda.DataAudit)
    assert [bias.name for bias in alone.biases] == ["structure"]
    assert contingency(alone.bias("structure")).exclusions.reasons == {"unparsed label": 1}
    assert isinstance(alone.words, cda.Missing) and "texts are not known" in alone.document().markdown()
    assert run(written(rows(40)), "--labels", labels, *named, "--out", "beside").exit_code == 0
    beside = cda.load("beside")
    assert isinstance(beside, cda.DataAudit)
    assert beside.bias("structure").labelled_by == "labels.jsonl" and not isinstance(beside.words, cda.Missing)
    assert contingency(beside.bias("structure")).only_chosen == 24
    short = run(written(rows(30)), "--labels", labels, *named)
    assert short.exit_code == 2 and "40 rows of labels without texts for 30 rows of pairs.jsonl" in short.output


def test_labels_of_the_label_stage_are_matched_by_their_texts() -> None:
    made = rows(40)
    labelled = [
        row | {"labels": {"jargon": {"chosen": at % 3 > 0, "rejected": at % 3 == 0}}}
        for at, row in enumerate(made[:36])
    ]
    found = cda.audit_data(made, labels=written(labelled[::-1], "labels.jsonl"), progress=False)
    table = contingency(found.bias("jargon"))
    assert (table.only_chosen, table.only_rejected, table.exclusions.dropped) == (24, 12, 4)
    with pytest.raises(DataError, match="none of its 36 rows is one of the 1 pairs"):
        cda.audit_data([row | {"prompt": "Another?"} for row in made[:1]], labels="labels.jsonl", progress=False)


def labeller(asked: list[str]) -> Answer:
    """Labels lists as the bias file measures them."""

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        text = body["messages"][-1]["content"]
        asked.append(text)
        shown = re.findall(r"<<<RESPONSE \d>>>\n(.*?)\n<<<END>>>", text, re.DOTALL)
        lists = [exhibits(each, load_bias("structure")) for each in shown]
        named = {"query": "no", **{f"response_{at}": "yes" if each else "no" for at, each in enumerate(lists, 1)}}
        return reply(json.dumps({"reasoning": "lines", **named}), "judge")

    return answer


def test_an_llm_labels_after_its_cost_is_told_and_a_training_does_not_ask_again(serve: Callable[[Answer], str]) -> None:
    asked: list[str] = []
    words = ["llm.model=judge", f"llm.base_url={serve(labeller(asked))}"]
    result = run(written(rows(24)), *words, "--bias", "structure", "--out", "runs/found")
    assert result.exit_code == 0, result.output
    assert "labelling structure: about 24 calls of judge" in result.output and len(asked) == 24
    found = cda.load("runs/found")
    assert isinstance(found, cda.DataAudit) and found.llm is not None
    assert (found.llm.model, found.prompt, found.bias("structure").labelled_by) == ("judge", "ours", "judge")
    training = load_recipe("structure", ["data.pairs=pairs.jsonl", *words, "run.folder=runs/training"])
    tally = label.run(training, Path()).labels["structure"]
    assert (tally.n, tally.chosen_only, len(asked)) == (24, contingency(found.bias("structure")).only_chosen, 24)


def test_a_sample_is_drawn_and_counted() -> None:
    found = cda.audit_data(rows(60), biases="structure", limit=30, progress=False)
    assert (found.n_pairs, found.not_drawn) == (
        30,
        30,
    ) and "30 further pairs were not drawn" in found.document().markdown()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"by": "topic"}, r"--by topic: it is the same in every row \('all'\), so that there is nothing to compare; name another column"),
        ({"by": "sorce"}, r"--by sorce: no such column in the given pairs\. Did you mean 'source'\? Found: chosen, prompt, rejected, source"),
        ({"by": "prompt"}, r"--by prompt: none of its 60 levels has 10 prompts \(the largest has 1\); name another column"),
        ({"columns": {"chosen": "better"}}, r"no column 'better'\. Found: .*Map it with columns=\{\"chosen\": \"<your column>\"\}"),
        ({"columns": {"chose": "x"}}, "--column chose: not a column that is read. Did you mean 'chosen'"),
        ({"biases": ["structre"]}, "Did you mean 'structure'"),
        ({"biases": ["helpfulness"]}, "bias 'helpfulness' cannot be measured, so labelling it needs an LLM"),
        ({"limit": 1}, "--limit 1: 2 or more pairs are needed"),
        ({"limit": "all"}, "limit: give a whole number"),
        ({"model": {"precision": "fp32"}}, "model: has no effect on `cda data`"),
        ({"labels": "none.jsonl"}, "none.jsonl: no such file"),
        ({"figures": "png"}, "figures are written as svg or pdf"),
    ],
)  # fmt: skip
def test_mistakes_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(CdaError, match=message):
        cda.audit_data(rows(), progress=False, **given)


def test_labels_of_other_biases_and_rows_without_pairs() -> None:
    labels = written([row | {"chosen_length": "yes", "rejected_length": "no"} for row in rows(20)])
    with pytest.raises(
        DataError, match=r"no labels of jargon\. Found: .*Needed: the columns chosen_jargon and rejected_jargon"
    ):
        cda.audit_data(labels, labels=labels, biases="jargon", progress=False)
    with pytest.raises(DataError, match="no usable pair; 2 of 2 dropped"):
        cda.audit_data([{"prompt": "a", "chosen": "same", "rejected": "same"}] * 2, progress=False)
    with pytest.raises(RecipeError, match="has no effect on `cda data`"):
        cda.audit_data(rows(), overrides=["data.max_pairs=3"], progress=False)
    assert run(written(rows()), "train.seeds=3").exit_code == 2


def test_a_bias_that_no_pair_has_is_named_and_the_others_are_measured() -> None:
    found = cda.audit_data(rows(), biases=["structure", "sycophancy"], progress=False)
    none = found.bias("sycophancy")
    assert (
        isinstance(none.contingency, cda.Missing)
        and "no pair of 60 has the bias on one side only" in none.contingency.reason
    )
    assert not isinstance(none.odds, cda.Missing) and isinstance(none.odds.crude, cda.Missing)
    assert none.odds.crude.reason == "no pair differs in it" and isinstance(none.test, cda.Missing)
    assert isinstance(found.bias("structure").test, object) and "structure" in str(found)
    few = cda.audit_data(rows(6), biases="structure", progress=False).bias("structure")
    assert not isinstance(few.odds, cda.Missing) and isinstance(few.odds.crude, cda.Missing)
    assert few.odds.crude.reason == "pairs of 6 prompts differ in it; 10 are needed"


def test_what_is_not_shown_is_no_absence_and_few_pairs_are_said() -> None:
    long, short = "It is so, and it has been so for a long time by now.", "It is so."
    pairs = [
        {"prompt": f"Why {row}?", "chosen": (long, short)[row % 2], "rejected": (short, long)[row % 2]}
        for row in range(40)
    ]
    pairs[0]["chosen"] += "\n- One\n- Two\n- Three"
    found = cda.audit_data(pairs, biases=["length", "structure"], progress=False)
    headline = found.document().headline
    assert headline.endswith("no preference is shown on length; too few pairs differ in structure.")
    assert headline.startswith("In ") and "too few" in str(found)


def perfect(n: int = 60) -> list[dict[str, Any]]:
    """A list on the chosen side of every pair, which is the longer side in three of four."""
    return [
        {
            "prompt": f"Question {number}?",
            "chosen": f"{LIST} {'so ' * (number % 7 + 2 * (number % 4 > 0))}",
            "rejected": f"{PROSE} {'so ' * (number % 7 + (number % 4 == 0))}",
        }
        for number in range(n)
    ]


def test_a_bias_that_tells_every_choice_comes_first_and_no_weights_take_it_away() -> None:
    lines = run(written(perfect()), "--rows", "rows.jsonl").output.splitlines()
    header = next(at for at, line in enumerate(lines) if line.startswith("bias "))
    assert lines[header + 1].startswith("structure  ▲ favoured") and " 100% " in lines[header + 1]
    length = lines[header + 2]
    assert length.startswith("length     ? not told apart") and length.endswith("structure tells all")
    assert any(line.startswith("Biases and length alone tell 100% [") for line in lines)
    cannot = "Weights cannot take structure away (r 1.00, weighted 1.00): too few pairs go against it."
    assert cannot in lines
    step = " ".join(lines[next(at for at, line in enumerate(lines) if line.startswith("Next: ")) :])
    assert "with the weights" not in step and step.endswith("    cda train structure")
    page = next(Path("runs").glob("*/data.md")).read_text(encoding="utf-8")
    assert "It cannot be told apart from structure, which tells every choice where it differs." in page
    assert cannot.replace("(", "\\(") in page or cannot in page
    without = run("pairs.jsonl").output
    assert "structure  " in without and "too few pairs go against structure" in without


def test_a_verdict_next_to_a_share_that_says_more_has_its_reason() -> None:
    """Lists are chosen and longer; where both sides are lists, length is chosen as often as not."""
    made = perfect(40)
    for number, row in enumerate(made[:8]):
        row["chosen"], row["rejected"] = (
            (row["rejected"], row["chosen"]) if number < 4 else (row["chosen"], row["rejected"])
        )
    lines = run(written(made), "--bias", "length", "--bias", "structure").output.splitlines()
    length = next(line for line in lines if line.startswith("length "))
    assert "? not shown" in length and length.endswith("; not if structure is alike"), lines
