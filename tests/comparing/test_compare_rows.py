"""Audits as rows to share: exported, checked when they are read, grouped by their texts, and given places within a group."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from made_audits import HOSTILE
from page_checks import checked, read_markdown

import cda
from cda.comparing.compare import compare_audits, mean_of_biases, ranked
from cda.comparing.members import gather
from cda.comparing.page import comparison_csv, comparison_document
from cda.comparing.screen import labels
from cda.errors import DataError
from cda.numbers.measures import MEASURES
from cda.results.base import Estimate, Missing, load, save
from cda.results.comparison import AuditRow, ComparisonResult, MeasuredTexts, Number, TrainedAs


def number(value: float, half: float = 0.05, unit: str = "share") -> Estimate:
    low, high = (max(0.0, value - half), min(1.0, value + half)) if unit == "share" else (value - half, value + half)
    return Estimate(value=value, low=low, high=high, n=100, n_prompts=100, unit=unit, method="made")


def bias(skew: float, wrong: float | None = None, rate: float | None = None, half: float = 0.05) -> dict[str, Estimate]:
    found = {"skew": number(skew, half)}
    found |= {} if wrong is None else {"miscalibration": number(wrong, half), "human_skew": number(0.5)}
    return found | ({} if rate is None else {"rate_standardised": number(rate, half, "SD")})


def row(
    model: str, biases: dict[str, dict[str, Estimate]], content: str | None = "c", n: int = 100, **given: Any
) -> AuditRow:
    numbers = [
        Number(measure=key, moment="model", at={"bias": name}, found=found)
        for name, own in biases.items()
        for key, found in own.items()
    ]
    numbers.append(Number(measure="accuracy", moment="model", at={}, found=number(0.7)))
    texts = {f"contrasts of {name}": MeasuredTexts(name="embedded", n=n, content=content) for name in biases}
    fixed = {"cda_version": "0.1.0", "date": "2026-11-24", "revision": None, "content": None, "training": None,
             "kind": "reward model", "scored": {"precision": "bf16"}, "texts": texts, "numbers": tuple(numbers)}  # fmt: skip
    return AuditRow(**{**fixed, "model": model, **given})


def compared(folder: Path) -> ComparisonResult:
    return compare_audits(gather([folder]), 42)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three rows on the same texts, one of them in a folder of its own, and one on others."""
    (tmp_path / "more").mkdir()
    save(row("org/low", {"jargon": bias(0.5, 0.10)}), tmp_path / "a.json")
    save(row("org/high", {"jargon": bias(0.9, 0.40)}), tmp_path / "b.json")
    save(row("org/close", {"jargon": bias(0.6, 0.14)}), tmp_path / "more" / "c.json")
    save(row("org/other", {"jargon": bias(0.99)}, content="d"), tmp_path / "d.json")
    return tmp_path


def places(result: Any) -> dict[str, tuple[float, float, float]]:
    found = {n.at["audit"]: n.found for n in result.together if n.measure == "place"}
    return {name: (each.low, each.high, each.value) for name, each in found.items()}


def test_rows_on_other_texts_have_no_places_together(folder: Path) -> None:
    result = compared(folder)
    (group,) = result.ranked  # an only one has nothing to be ranked with
    assert group.audits == ("org/low", "org/close", "org/high") and group.ranked_by == "miscalibration"
    assert places(result) == {"org/low": (1, 2, 1), "org/close": (1, 2, 2), "org/high": (3, 3, 3)}
    text = read_markdown(comparison_document(result).markdown())
    assert (
        "Lowest miscalibration: org/low, 10% [5, 15], among 3 audits of the same texts; as low by the intervals: org/close."
        in text
    )
    below = text[text.index("\n## ") :].splitlines()
    lines = [re.split(r"\s*\|\s*", line)[1:3] for line in below if line.startswith("| org/")]
    assert lines[:3] == [["org/low", "1–2"], ["org/close", "1–2"], ["org/high", "3"]]
    assert lines[3][0] == "org/other" and "²" in text and "Without margins" in text and not result.means
    sources = {name: result.sources[name] for name in ("org/low", "org/close")}
    assert sources == {"org/low": "a.json", "org/close": "more/c.json"}


def headline(rows: dict[str, AuditRow], folder: Path) -> str:
    for name, each in rows.items():
        save(each, folder / f"{name}.json")
    return comparison_document(compared(folder)).headline


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        (
            {"a": {"jargon": bias(0.8), "length": bias(0.76)}, "b": {"jargon": bias(0.1), "length": bias(1.0)}},
            "a is the least biased of 2: 28 points from no preference on average over 2 biases (b: 45).",
        ),
        (
            {"a": {"jargon": bias(0.9)}, "b": {"jargon": bias(0.1)}},
            "No audit is shown to be best of a and b; not told apart: 40 points from no preference; on jargon they prefer opposite sides.",
        ),
        (
            {"a": {"jargon": bias(0.9)}, "b": {"jargon": bias(0.88)}},
            "No audit is shown to be best of b and a; not told apart: 38 and 40 points from no preference.",
        ),
        (
            {name: {"jargon": bias(0.5, wrong)} for name, wrong in (("a", 0.1), ("b", 0.3), ("c", 0.5))},
            "a is closest to people on jargon of 3: 10% of pairs against their majority (next: b, 30%).",
        ),
        (
            {name: {"jargon": bias(0.5, None, effect)} for name, effect in (("a", 0.1), ("b", -0.4))},
            "a is the least biased on jargon: 0.10 standard deviations of effect (b: 0.40).",
        ),
        (
            {name: {"jargon": bias(0.5, wrong)} for name, wrong in (("a", 0.1), ("b", 0.11), ("c", 0.12), ("d", 0.13))},
            "No audit is shown to be best of a, b, c and d; not told apart: 10% to 13% of pairs against their majority.",
        ),
    ],
)
def test_the_headline_says_in_plain_words_who_comes_first(
    measured: dict[str, dict[str, dict[str, Estimate]]], said: str, tmp_path: Path
) -> None:
    assert headline({name: row(name, own) for name, own in measured.items()}, tmp_path) == said


def level(words: dict[str, dict[str, str]], **given: Any) -> dict[str, AuditRow]:
    """Rows that have the same shares, with these verdicts."""
    return {
        name: row(name, {of: bias(0.9) for of in own}, verdicts=own, **given) for name, own in words.items()
    }  # fmt: skip


UNCLEAR = dict.fromkeys(("a1", "a2", "a3", "a4"), "no effect shown")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            {"a": {"length": "rewarded", "jargon": "penalised"}, "b": {"length": "rewarded", "jargon": "rewarded"}},
            "a rewards length and penalises jargon; b rewards length and jargon",
        ),
        (
            {"a": {"length": "over-rewarded", "jargon": "not rewarded"}, "b": {"length": "no effect shown", "jargon": "mostly tied"}},
            "a over-rewards length and does not reward jargon; b is not shown to reward length or jargon",
        ),
        ({"a": UNCLEAR, "b": UNCLEAR}, "a and b are not shown to reward any of 4 biases"),
        (
            {"a": UNCLEAR, "b": dict.fromkeys(UNCLEAR, "rewarded")},
            "b rewards a1, a2, a3 and 1 more; a is not shown to reward any of 4 biases",
        ),
        (
            {name: {"length": "rewarded"} for name in "abcdef"},
            "a rewards length; b rewards length; c rewards length; d rewards length; and 2 more",
        ),
    ],
)  # fmt: skip
def test_if_none_is_best_the_headline_first_says_what_each_rewards(
    words: dict[str, dict[str, str]], said: str, tmp_path: Path
) -> None:
    n = len(next(iter(words.values())))
    over = f" on average over {n} biases" if n > 1 else ""
    found = headline(level(words), tmp_path)
    assert found == f"{said}; not told apart: 40 points from no preference{over}."
    assert len(found.split()) <= 45


def test_a_headline_of_long_verdicts_names_fewer_biases(tmp_path: Path) -> None:
    own = {f"bias-{at}": "rewarded" if at < 4 else "penalised" for at in range(8)}
    found = headline(level(dict.fromkeys(("one", "two", "three", "four", "five"), own)), tmp_path)
    assert found.startswith("five rewards bias-0 and 3 more; four rewards bias-0 and 3 more; ")
    assert "; and 1 more; not told apart: 40 points" in found and len(found.split()) <= 45
    texts = {f"contrasts of {name}": MeasuredTexts(name="own", n=100, content="d") for name in own}
    save(row("two", {name: bias(0.9) for name in own}, verdicts=own, texts=texts), tmp_path / "two.json")
    for name in ("three", "four", "five"):
        (tmp_path / f"{name}.json").unlink()
    assert comparison_document(compared(tmp_path)).headline == (
        "one rewards bias-0, bias-1, bias-2 and 1 more and penalises bias-4, bias-5, bias-6 and 1 more; two rewards bias-0, bias-1, bias-2 "
        "and 1 more and penalises bias-4, bias-5, bias-6 and 1 more; none ranks, since no two have the same texts throughout."
    )


def test_too_few_contrasts_are_said_with_the_command_that_measures_more(tmp_path: Path) -> None:
    few = {"length": "too few prompts", "jargon": "too few prompts"}
    rows = level({"a": few, "b": few}, n=20, needed={"length": 53, "jargon": 30})
    assert headline(rows, tmp_path) == (
        "Too few texts to tell whether a and b reward length or jargon; not told apart: 40 points from no preference on average over 2 "
        "biases; a verdict on length and jargon needs about 30 to 53 contrasts."
    )
    step = comparison_document(compared(tmp_path)).next
    assert step is not None and step.why == (
        "more contrasts are needed: 53 contrasts of a bias, and 20 are there; leave out --limit, or raise it"
    )
    assert step.command() == "cda compare a b --bias length --bias jargon --limit 53"
    own = {name: texts.model_copy(update={"name": "mine.jsonl"}) for name, texts in rows["a"].texts.items()}
    headline({name: each.model_copy(update={"texts": own}) for name, each in rows.items()}, tmp_path)
    step = comparison_document(compared(tmp_path)).next
    assert (
        step is not None
        and not step.command()
        and step.why
        == (
            "more contrasts are needed: 53 contrasts of a bias, and 20 are there; leave out --limit or raise it if it was given, "
            "else write more contrasts"
        )
    )


def test_the_next_step_names_no_first_one_where_none_is_best(tmp_path: Path) -> None:
    said = {
        10: "± 10 points need 93 contrasts of a bias, and 10 are there; leave out --limit, or raise it",
        100: "± 5 points need 381 contrasts of a bias, and 100 are there; leave out --limit, or raise it",
        140: "± 5 points need 381 contrasts of a bias, and 140 are there, all that are shipped; write more (--contrasts)",
    }
    for n, why in said.items():
        headline(level({name: {"length": "rewarded"} for name in ("a", "b")}, n=n), tmp_path)
        step = comparison_document(compared(tmp_path)).next
        assert step is not None and step.why == f"no difference is shown: {why}"
        assert step.command() == {
            10: "cda compare a b --bias length --limit 93",
            100: "cda compare a b --bias length --limit 381",
        }.get(n, "")
    headline({"a": row("a", {"length": bias(0.6)}), "b": row("b", {"length": bias(0.9)})}, tmp_path)
    step = comparison_document(compared(tmp_path)).next
    assert step is not None and step.command() == "cda train length model.name_or_path=a"


def test_what_is_rewarded_is_on_the_first_screen_before_what_is_unclear(tmp_path: Path) -> None:
    own = {f"bias-{at}": "rewarded" if at == 6 else "no effect shown" for at in range(7)}
    headline(level({"a": own, "b": own}), tmp_path)
    glance = comparison_document(compared(tmp_path)).glance
    assert glance is not None and glance.columns == ("bias-6", "bias-0", "bias-1", "bias-2", "bias-3")
    assert glance.rest == "Further biases, in the report: bias-4 and bias-5."


def test_one_that_ties_elsewhere_is_said_to_reward_what_it_does_and_second_turns_come_last_on_the_page(
    tmp_path: Path,
) -> None:
    names = ("length", "structure", "jargon", "sycophancy", "vagueness", "length-second-turn")
    chars = {name: "rewarded" if name.startswith("length") else "no effect shown" for name in names}
    rows = level(
        {"chars": chars, "lists": {name: "rewarded" if name == "structure" else "scored alike" for name in names}}
    )
    tied = tuple(name for name in names if name != "structure")
    right = Number.of(
        "accuracy", "model", {}, rows["lists"].numbers[0].found.model_copy(update={"value": 0.0, "low": 0.0, "n": 164})
    )
    lists = rows["lists"].model_copy(
        update={"tied": tied, "quality_ties": {"model": 164}, "numbers": (*rows["lists"].numbers, right)}
    )
    found = headline(rows | {"lists": lists}, tmp_path)
    assert found == (
        "chars rewards length and length-second-turn; lists rewards structure; they cannot be ranked: lists scores most or all pairs "
        "exactly alike for 5 biases."
    )
    document = comparison_document(compared(tmp_path))
    assert document.glance is not None and document.glance_by_news is not None and len(found.split()) <= 45
    assert {*document.glance.columns} == {*names[:5]} and "length-second-turn" in document.glance_by_news.columns[:3]
    assert document.plots and "## Figures" not in document.markdown()
    assert any(row.clause.endswith("quality all tied, n = 164") for row in document.glance.rows)
    assert "all tied" in read_markdown(document.markdown())


def test_functions_go_by_their_names_and_by_their_files_if_these_are_equal(tmp_path: Path) -> None:
    given = ("words.py:score", "other.py:score", "pkg.module:score", "words.py:count", "memory:reward")
    for at, model in enumerate(given):
        save(row(model, {"jargon": bias(0.7)}), tmp_path / f"{at}.json")
    expected = ["score (words.py)", "score (other.py)", "score (pkg.module)", "count", "reward"]
    assert list(labels(compared(tmp_path)).values()) == expected


def test_short_names_of_rows_stand_in_tables_figures_and_sentences(tmp_path: Path) -> None:
    own = {"wordy-and-long": "rewarded", "length": "rewarded"}
    given = level({"a": own, "b": own}, short_names={"wordy-and-long": "Wordy"})
    assert headline(given, tmp_path).startswith("a rewards Wordy and length; b rewards Wordy and length; ")
    document = comparison_document(compared(tmp_path))
    assert document.glance is not None and document.glance.columns == ("Wordy", "length")
    shown = [read_markdown(document.markdown()), *(f"{plot.title} {plot.description}" for plot in document.plots)]
    assert not any("wordy-and-long" in text for text in shown) and any("Wordy" in text for text in shown[1:])


def test_a_row_whose_pairs_tie_has_no_place_and_takes_none_from_the_others(tmp_path: Path) -> None:
    rows = {name: row(name, {"jargon": bias(skew, None, 0.1)}) for name, skew in (("a", 0.7), ("b", 0.9))}
    rows["flat"] = row("flat", {"jargon": bias(0.0)}, tied=("jargon",), verdicts={"jargon": "scored alike"})
    group, numbers = ranked(rows)
    assert group.audits == ("a", "b") and group.tied == ("flat",)
    assert group.ranked_by == "size of RATE's effect"  # which a scorer of ties alone does not have
    assert {each.at["audit"] for each in numbers} == {"a", "b"}
    both = {name: each.model_copy(update={"tied": ("jargon",)}) for name, each in rows.items() if name != "a"}
    assert headline(both, tmp_path) == (
        "They cannot be ranked: b scores most or all pairs exactly alike for jargon; flat scores most or all pairs exactly alike for "
        "jargon."
    )
    glance = comparison_document(compared(tmp_path)).glance
    assert glance is not None
    assert [(row.cells[0].instead, row.cells[0].marks, row.clause) for row in glance.rows] == [
        ("mostly tied", (), "no place; quality 70%, n = 100"),
        ("all ties", (), "no place; quality 70%, n = 100"),
    ]


def test_the_terminal_has_the_shares_if_there_is_room_beside_places(tmp_path: Path) -> None:
    def lines(n: int) -> list[str]:
        rows = {
            name: row(
                name,
                {f"bias-{at}": bias(skew) for at in range(n)},
                verdicts={f"bias-{at}": "rewarded" for at in range(n)},
            )
            for name, skew in (("a", 0.7), ("b", 0.9))
        }
        headline(rows, tmp_path)
        glance = comparison_document(compared(tmp_path)).glance
        assert glance is not None
        found = glance.lines(10)
        assert max(map(len, found)) <= 100
        return [re.sub(" +", " ", line) for line in found[1:3]]

    whole, short = "▲ rewarded 70% [65, 75]", "▲ rewarded 70%"
    end = " place 1; quality 70%, n = 100"
    assert lines(2)[0] == f"a {whole} {whole}{end}"
    assert lines(4)[0] == f"a {short} {short} {short} {short}{end}"
    assert lines(5)[0] == f"a {short} {short} {short} {short} {short}"  # a share says more than a place


def test_two_on_other_texts_are_audited_again_by_the_next_command(folder: Path) -> None:
    (folder / "b.json").unlink(), (folder / "more" / "c.json").unlink()
    step = comparison_document(compared(folder)).next
    assert step is not None
    assert step.why.endswith("they differ in contrasts of jargon")
    assert step.command() == "cda compare org/low org/other --bias jargon"
    save(row("org/low", {"jargon": bias(0.99)}, content="e", date="2026-11-25"), folder / "d.json")  # one model, twice
    step = comparison_document(compared(folder)).next
    assert step is not None and step.why.endswith("they differ in contrasts of jargon") and not step.command()


def test_two_audits_of_one_scorer_are_told_apart_by_their_places(tmp_path: Path) -> None:
    for name in ("first", "second"):
        save(row("judge:longer", {"jargon": bias(0.7)}, content=name, kind="judge"), tmp_path / f"{name}.json")
    result = compared(tmp_path)
    assert set(result.audits) == {"judge:longer (first.json)", "judge:longer (second.json)"}
    assert list(labels(result).values()) == ["judge longer (first.json)", "judge longer (second.json)"]
    same = result.model_copy(update={"sources": dict.fromkeys(result.sources, "run")})
    assert list(labels(same).values()) == ["judge longer (1)", "judge longer (2)"]


def test_rows_that_are_exactly_equal_share_a_place() -> None:
    rows = {
        name: row(name, {"jargon": bias(0.5, wrong, half=half)})
        for name, wrong, half in (("one", 0.1, 0.05), ("two", 0.1, 0.05), ("three", 0.14, 0.05), ("four", 0.4, 0.0), ("five", 0.4, 0.0))
    }  # fmt: skip
    _, numbers = ranked(rows)
    found = places(type("Result", (), {"together": numbers}))
    assert found == {
        "one": (1, 3, 1.5),
        "two": (1, 3, 1.5),
        "three": (1, 3, 3),
        "four": (4, 5, 4.5),
        "five": (4, 5, 4.5),
    }


def test_places_go_by_the_first_measure_that_every_row_has() -> None:
    rows = {"one": row("one", {"jargon": bias(0.5, 0.1, 2.0)}), "two": row("two", {"jargon": bias(0.5, None, -0.02)})}
    group, numbers = ranked(rows)
    assert group.ranked_by == "size of RATE's effect" and group.audits == ("two", "one")
    (score,) = [n.found for n in numbers if n.measure == "score" and n.at["audit"] == "two"]
    assert isinstance(score, Estimate) and (score.low, score.value, score.high) == (0.0, 0.02, pytest.approx(0.07))
    rows["two"] = row("two", {"jargon": bias(0.9)})
    group, _ = ranked(rows)
    assert group.ranked_by == "distance of skew from 50%" and group.audits == ("one", "two")
    mean = mean_of_biases([number(0.2, 0.1), number(0.4, 0.2)])
    assert (mean.value, mean.low, mean.high, mean.n) == pytest.approx((0.3, 0.15, 0.45, 200))
    with pytest.raises(DataError, match="a value for each"):
        mean_of_biases([number(0.2), Missing(reason="none")])


def test_of_one_model_scored_alike_the_newest_row_is_shown(folder: Path) -> None:
    save(row("org/low", {"jargon": bias(0.5, 0.10)}), folder / "copy.json")
    save(row("org/high", {"jargon": bias(0.9, 0.30)}, date="2026-12-01"), folder / "newer.json")
    save(row("org/high", {"jargon": bias(0.9, 0.39)}, scored={"precision": "8bit"}), folder / "other.json")
    save(row("org/unknown", {"jargon": bias(0.9, 0.39)}, content=None), folder / "unknown.json")
    result = compared(folder)
    said = [each.text for each in result.findings]
    assert "copy.json: a copy of a.json, which is shown." in said
    assert "b.json: the same model and texts, with other numbers, as newer.json, which is shown." in said
    assert sorted(result.sources.values()) == [
        "a.json",
        "d.json",
        "more/c.json",
        "newer.json",
        "other.json",
        "unknown.json",
    ]
    assert "org/high (other.json)" in result.audits and "org/unknown" not in result.ranked[0].audits


def test_a_bad_row_is_named_and_counted_and_the_others_are_shown(folder: Path) -> None:
    good = json.loads((folder / "a.json").read_text())
    skew = good["numbers"][0]

    def with_skew(**changed: Any) -> str:
        return json.dumps(good | {"numbers": [skew | {"found": skew["found"] | changed}]})

    bad = {
        "cut.json": ('{"model": ', "not valid JSON"),
        "other.json": ('{"sets": [], "schema_version": 99}', "no row: a row has the field numbers"),
        "future.json": (json.dumps(good | {"schema_version": 99}), "a newer version of cda"),
        "earlier.json": (json.dumps(good | {"schema_version": 1}), "an earlier version of cda"),
        "beyond.json": (with_skew(value=1.5, high=2.0), "skew of jargon: 0.45 to 2 is outside of 0 to 1"),
        "no-interval.json": (with_skew(low=0.9), r"is no estimate"),
        "latin.json": ('{"model": "\udce9"}', "line 1: not UTF-8"),
        "no-bias.json": (json.dumps(good | {"numbers": []}), "no bias was measured"),
        "no-name.json": (json.dumps(good | {"model": " "}), "no model's name"),
        "no-day.json": (json.dumps(good | {"date": "yesterday"}), "date: 'yesterday' is no day such as 2026-11-24"),
        "no-prompts.json": (with_skew(n_prompts=-5), "n = 100 of -5 prompts, is no estimate"),
        "unknown.json": (json.dumps(good | {"numbers": [skew | {"measure": "skw"}]}), "'skw' is no measure. Did you mean 'skew'?"),
        "more-fields.json": (json.dumps(good | {"rank": 1}), "rank: Extra inputs"),
    }  # fmt: skip
    for name, (text, _) in bad.items():
        (folder / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    result = compared(folder)
    assert set(result.refused) == set(bad)
    for name, (_, said) in bad.items():
        assert said in result.refused[name] and "\n" not in result.refused[name]
        assert str(folder) not in result.refused[name]
    assert len(result.audits) == 4
    assert "13 of 17 files are no audits or rows." in comparison_document(result).text()
    with pytest.raises(cda.RunError, match=r"(?s)cut\.json: not valid JSON.*other\.json: no row"):
        cda.compare(folder / "cut.json", folder / "other.json", folder / "a.json")
    for name in ("a", "b", "d", "more/c"):
        (folder / f"{name}.json").unlink()
    with pytest.raises(DataError) as caught:
        compared(folder)
    first, *files, last = str(caught.value).splitlines()
    assert "no row that `cda audit --export" in first and len(files) == 9 and last == "… and 4 more files"


def test_a_folder_is_compared_again_and_a_wrong_one_is_one_sentence(folder: Path) -> None:
    first = cda.compare(folder, out=folder)
    assert cda.compare(folder, out=folder).model_dump() == first.model_dump()  # its own numbers are no row
    (folder / "empty").mkdir()
    with pytest.raises(cda.RecipeError, match="empty: a folder without a model, a finished audit, or a row"):
        cda.compare(folder / "empty")
    with pytest.raises(cda.RecipeError, match=r"two or more to compare, or a folder of them; found .*a\.json"):
        cda.compare(folder / "a.json")


def test_hostile_names_stay_words(tmp_path: Path) -> None:
    save(row(HOSTILE, {HOSTILE: bias(0.5, 0.1)}), tmp_path / "a.json")
    save(row("=cmd()", {HOSTILE: bias(0.5, 0.2)}), tmp_path / "b.json")
    result = compared(tmp_path)
    document = comparison_document(result)
    checked(document.page())
    assert "<script>alert" not in document.page() and "\x1b" not in document.text() + document.markdown()
    cells = [cell for line in csv.reader(io.StringIO(comparison_csv(result))) for cell in line]
    assert "'=cmd()" in cells and not any(cell.startswith(("=", "+", "@")) for cell in cells)


def by_length(_: list[Any], responses: list[str]) -> list[int]:
    return [len(response) for response in responses]


CONTRASTS = [
    {"id": f"c{at}", "prompt": f"What is {at}?", "base": f"Thing {at}.", "perturbed": f"Paradigm {at}."}
    for at in range(12)
]
PAIRS = [{"prompt": f"q{at}", "chosen": "good " * (at % 3 + 1), "rejected": "bad, long answer"} for at in range(12)]
SMALL: dict[str, Any] = {"biases": "jargon", "quality": PAIRS, "triples": "none", "progress": False}


def test_a_row_holds_the_audits_numbers_and_names_its_texts(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def score(prompts, responses):\n    return [len(text) for text in responses]\n")
    votes = [{"id": f"c{at}", "vote": "base" if at % 3 else "perturbed"} for at in range(12)]
    given = {**SMALL, "contrasts": CONTRASTS, "votes": votes}
    audit = cda.audit(f"{tmp_path / 'mine.py'}:score", out=tmp_path / "run", **given)
    file = audit.export(tmp_path / "row.json")
    found = load(AuditRow, file, "")
    for key, measure in MEASURES.items():
        if measure.find and measure.of_bias:
            assert found.last(key, "jargon") in measure.moments(audit, "jargon").values()
    assert audit.quality is not None and found.last("accuracy") == audit.quality.before and found.training is None
    assert (found.model, found.scored["how"]) == ("mine.py:score", "Scored by mine.py:score")
    assert found.date is not None and len(found.date) == 10
    assert {name: texts.n for name, texts in found.texts.items()} == {
        "contrasts of jargon": 12, "votes on jargon": 12, "quality pairs": 12,
    }  # fmt: skip
    assert str(tmp_path) not in file.read_text() and str(Path.home()) not in file.read_text()
    again = cda.load(tmp_path / "run").audit.export(tmp_path / "rows/")  # type: ignore[union-attr]
    assert again.parent == tmp_path / "rows" and again.name.startswith("mine.py-score-")
    assert again.read_text() == file.read_text()
    copies = cda.compare(tmp_path / "run", again, out=tmp_path / "out")
    assert list(copies.audits) == ["mine.py:score"] and "a copy of" in copies.document().markdown()
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((Path(cda.__file__).parent.parent / "docs" / "schemas" / "audit_row.json").read_text())
    jsonschema.validate(json.loads(file.read_text()), schema)
    audit.save(tmp_path / "audit.json")
    with pytest.raises(cda.RunError, match=r"read from a file alone .*cda\.load\(folder\)\.audit"):
        cda.load(tmp_path / "audit.json").export(tmp_path / "row.json")  # type: ignore[union-attr]
    (tmp_path / "run" / "audit" / "margins.jsonl").unlink()
    with pytest.raises(cda.RunError, match=r"no finished audit with its margins\.jsonl"):
        audit.export(tmp_path / "row.json")
    alone = cda.compare(tmp_path / "audit.json", again, out=tmp_path / "alone")  # a file says too little of its texts
    assert len(alone.audits) == 2 and not alone.ranked


def test_texts_are_known_by_content_and_votes_and_not_by_their_order(tmp_path: Path) -> None:
    votes = [{"id": f"c{at}", "vote": "base"} for at in range(12)]
    changed = [CONTRASTS[0] | {"base": "It is another thing."}, *CONTRASTS[1:]]
    kinds: dict[str, dict[str, Any]] = {
        "first": {}, "reordered": {"contrasts": CONTRASTS[::-1]}, "changed": {"contrasts": changed}, "voted": {"votes": votes},
        "voted again": {"votes": [*votes[1:], votes[0] | {"vote": "perturbed"}]},
    }  # fmt: skip
    found = {}
    for name, given in kinds.items():
        audit = cda.audit(
            by_length, out=tmp_path / name, **{**SMALL, "contrasts": CONTRASTS, "quality": "none", **given}
        )
        found[name] = load(AuditRow, audit.export(tmp_path / f"{name}.json"), "").text_set("votes", "jargon")
    assert found["first"] == found["reordered"] and None not in found.values()
    assert len(set(found.values())) == 4


def test_a_figure_has_rates_naive_effect_next_to_the_one_of_double_rewrites(tmp_path: Path) -> None:
    for name, naive, double in (("first", 0.8, 0.1), ("second", -0.4, 0.3)):
        own = bias(0.5, rate=double) | {"rate_naive_standardised": number(naive, unit="SD")}
        save(row(f"org/{name}", {"jargon": own, "length": bias(0.6, rate=0.2)}), tmp_path / f"{name}.json")
    plots = {plot.id: plot for plot in comparison_document(compared(tmp_path)).plots}
    said = plots["rate-jargon"].description
    assert (
        "org/first: naive +0.80 [+0.75, +0.85] (n = 100), double +0.10" in said
        and "org/second: naive -0.40".replace("-", "−") in said
    )
    assert "rate-length" not in plots  # no naive effect, so nothing to hold it against


def test_biases_and_models_together_as_in_the_papers(tmp_path: Path) -> None:
    """People's next to each model's and the mean, unless models lie on both sides; RATE by model; in one order, with known numbers."""
    for name, skew in (("first", 0.8), ("second", 0.3)):
        biases = {
            "jargon": bias(skew, 0.2, rate=0.1),
            "length": bias(skew / 4, 0.1, rate=0.2),
        }
        for own in biases.values():
            own |= {"rate_naive_standardised": number(0.4, unit="SD"), "skew_on_voted": own["skew"]}
            own |= {"correlation": number(0.3, unit="r"), "people_correlation": number(-0.2, unit="r")}
        save(row(f"org/{name}", biases), tmp_path / f"{name}.json")
    result = compared(tmp_path)
    plots = {plot.id: plot for plot in comparison_document(result).plots}
    assert list(plots)[:3] == ["biases", "rate", "correlations"]
    said = plots["biases"].description
    assert "jargon: people 50% [45, 55] (n = 100), org/first 80% [75, 85] (n = 100), org/second 30% [25, 35]" in said
    skew, wrong = result.plot("biases", "double")
    assert [skew.get_title(loc="left"), wrong.get_title(loc="left")] == ["Skew", "Miscalibration"]
    assert [text.get_text() for text in skew.get_yticklabels()] == ["jargon", "length"]
    marks = {each.get_label(): list(each[0].get_xdata()) for each in skew.containers}
    assert marks == {
        "people": [50, 50], "org/first": pytest.approx([80, 20]), "org/second": pytest.approx([30, 7.5])
    }  # fmt: skip
    first, second = result.plot("rate")
    assert [first.get_title(loc="left"), second.get_title(loc="left")] == ["org/first", "org/second"]
    assert "jargon: naive +0.40" in plots["rate"].description and "double +0.20" in plots["rate"].description


def test_a_training_whose_dose_was_chosen_on_the_same_contrasts_is_marked(tmp_path: Path) -> None:
    """Its target is held out after it, and marked; the model before, and other biases, are not."""
    for name, chosen_on in (("chosen", ("jargon",)), ("plain", ())):
        own = row(name, {"jargon": bias(0.5), "length": bias(0.6)})
        numbers = [each.model_copy(update={"moment": when}) for each in own.numbers for when in ("before", "after")]
        trained = TrainedAs(recipe=name, against=("jargon",), dose=0.5, adapter=None, chosen_on=chosen_on)
        save(own.model_copy(update={"numbers": tuple(numbers), "training": trained}), tmp_path / f"{name}.json")
    document = comparison_document(compared(tmp_path)).markdown()
    cells = {line.split("|")[1].strip(): line for line in document.splitlines() if line.startswith("|") and "‡" in line}
    assert list(cells) == ["chosen after chosen, dose 0.5, after"] and cells[next(iter(cells))].count("‡") == 1
    assert "The dose of this training was chosen on the same contrasts: the number is held out." in document


def test_an_unclear_verdict_next_to_a_share_that_excludes_half_has_its_reason(tmp_path: Path) -> None:
    words = {"length": "rewarded", "jargon": "not told apart from length", "structure": "too few prompts"}
    others = {"length": "too few prompts", "jargon": "rewarded", "structure": "too few prompts"}
    rows = level({"a": words, "b": others}, n=100, needed={"structure": 53})
    found = headline(rows | {"b": rows["b"].model_copy(update={"needed": {}})}, tmp_path)
    assert "a verdict on structure by a needs about 53 contrasts" in found
    document = comparison_document(compared(tmp_path))
    assert document.notes[0].text == (
        "Unclear, since not told apart from length: a on jargon; too few contrasts are alike otherwise: a and b on structure, b on length."
    )
    assert document.notes[0].text.split("; ")[0] in " ".join(document.text().splitlines())


def test_quality_of_one_that_ties_every_pair_is_not_paired() -> None:
    from cda.comparing.compare import _ties_all
    from cda.comparing.members import Member

    numbers = (Number.of("accuracy", "model", {}, number(0.5)),)
    for value, ties in ((100, True), (99, False)):
        member: Any = Member.__new__(Member)
        object.__setattr__(
            member,
            "row",
            row("x", {"jargon": bias(0.5)}, quality_ties={"model": value}).model_copy(update={"numbers": numbers}),
        )
        assert _ties_all(member) is ties
