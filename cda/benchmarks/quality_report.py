"""Results of `cda quality` for a terminal, in Markdown, as a page with figures, and as RewardBench's own files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from cda.files.paths import as_part
from cda.records import PERCENT
from cda.report.document import Document, how_made, meaning
from cda.report.numbers import clipped, count, few_prompts, p_equals, share
from cda.report.page import Entry, Headline, ReportSection
from cda.report.plots import Plot, Scale, levels_plot, named
from cda.report.scoring import (
    FLAGS,
    FORMATS,
    MEANINGS,
    accuracy,
    accuracy_of,
    fell,
    flag,
    model_label,
    scoring_sentences,
    set_notes,
    set_tables,
    tenth_points,
)
from cda.results.benchmarks import QualityResult, SetQuality
from cda.results.facts import RewardModelFacts


def quality_document(result: QualityResult) -> Document:
    """Sections and overall of every set, or the win rate of outputs; flags and their meaning."""
    models = " and ".join(dict.fromkeys(map(model_label, result.scorings)))
    what = "Win rate of" if any(each.win_rates for each in result.sets) else "Accuracy on"
    subtitle = f"{what} {', '.join(each.name for each in result.sets)}."
    return Document(f"Quality of {clipped(models, 120)}", subtitle, tuple(_headlines(result)), tuple(_sections(result)))


ScoreRow = Mapping[str, Any]
"""A row of scores.jsonl."""


def rewardbench_files(result: QualityResult, rows: Sequence[ScoreRow]) -> dict[str, object]:
    """RewardBench's result files: path below their folder to a JSON object, or to a list of JSON lines.

    Shapes as RewardBench's scripts write them: `eval-set/ORG/NAME.json` (model, model_type, chat_template and an accuracy
    for each subset: what the leaderboard reads), `eval-set-scores/ORG/NAME.json` (columns, with the scores of each pair), and
    of its command line `ORG/NAME.json` and `ORG/NAME_outputs.jsonl`. Texts stand as messages, before any chat template.
    """
    files: dict[str, object] = {}
    for each in result.sets:
        own = [row for row in rows if row["set"] == each.name and row["used"]]
        for scoring in result.scorings:
            label, model = scoring.label, scoring.model
            if each.format == "rm-bench" or not all("chosen" in row[label] for row in own):
                continue  # another benchmark's three by three, or a judge that scores no single text
            form = scoring.facts.form if isinstance(scoring.facts, RewardModelFacts) else None
            template = "tokenizer" if form == "chat template" else form
            head = {"model": model, "model_type": "Seq. Classifier" if form else "Custom", "chat_template": template}
            folder, place = as_part(each.name), "/".join(map(as_part, model.split("/")))
            subsets = {group.name: accuracy_of(group, label).value for group in each.subsets}
            best_of = each.format == "rewardbench-2"
            outputs = [_best_of_row(row, label) if best_of else _output_row(row, label) for row in own]
            if each.format in ("rewardbench", "rewardbench-2"):
                columns = {
                    name: [row[name] for row in outputs] for name in (_BEST_OF_COLUMNS if best_of else _PAIR_COLUMNS)
                }
                files[f"{folder}/eval-set/{place}.json"] = head | subsets
                files[f"{folder}/eval-set-scores/{place}.json"] = head | columns
            if not best_of:
                files[f"{folder}/{place}.json"] = {
                    "accuracy": sum(row["results"] for row in outputs) / len(outputs), "num_prompts": len(outputs),
                    "model": model, "ref_model": None, "tokenizer": model, "chat_template": template, "extra_results": subsets,
                }  # fmt: skip
                files[f"{folder}/{place}_outputs.jsonl"] = outputs
    return files


_PAIR_COLUMNS = ("text_chosen", "text_rejected", "results", "subset", "id", "scores_chosen", "scores_rejected")
_BEST_OF_COLUMNS = ("text", "scores", "results", "subset", "id", "num_correct")


def _output_row(row: ScoreRow, label: str) -> dict[str, Any]:
    chosen, rejected = row[label]["chosen"][0], row[label]["rejected"][0]
    return {
        "prompt": row["prompt"], "results": int(chosen > rejected), "scores_chosen": chosen, "scores_rejected": rejected,
        "text_chosen": _conversation(row, row["chosen"][0]), "text_rejected": _conversation(row, row["rejected"][0]),
        "subset": row["subset"], "id": _own_id(row),
    }  # fmt: skip


def _best_of_row(row: ScoreRow, label: str) -> dict[str, Any]:
    """A row of RewardBench 2: right answers first; Ties have no result of single prompts."""
    chosen, rejected = row[label]["chosen"], row[label]["rejected"]
    scores = [*chosen, *rejected]
    share = chosen.count(max(scores)) / scores.count(max(scores))
    return {
        "text": [_conversation(row, text) for text in [*row["chosen"], *row["rejected"]]], "scores": scores,
        "results": None if row["subset"].lower() == "ties" else share,
        "subset": row["subset"], "id": _own_id(row), "num_correct": len(chosen),
    }  # fmt: skip


def _conversation(row: ScoreRow, response: str) -> list[dict[str, str]]:
    return [*row["prompt"], {"role": "assistant", "content": response}]


def _own_id(row: ScoreRow) -> int | str:
    name = str(row["id"])
    return int(name) if name.isdecimal() else name


def quality_plot(each: SetQuality, place: int) -> Plot | None:
    """Accuracy of one set by section; `place` is its number on the page, for the anchor."""
    rows = ((f"{group.name} ({flag(group)})" if fell(group) else group.name, group) for group in each.shown)
    marked = "; marked where it falls by more than 1 point" if len(each.labels) > 1 else ""
    title = f"{named(each.name, 40)}: accuracy by section, with {PERCENT} intervals{marked}"
    return levels_plot(f"accuracy-{place}", title, rows, "accuracy", each.labels, Scale("accuracy (%)", is_share=True))


_TERMS = (
    Entry("accuracy", "items with the right answer on top / items", "By each benchmark's own rule, given with its numbers."),
    Entry("± 1 SE", "standard error by whole prompts", f"What papers draw as bars; a {PERCENT} interval reaches about twice as far."),
)  # fmt: skip
_CHANGE_TERMS = (
    Entry("paired change", "second scoring − first, on the same items", "Its interval allows for items that both get right or wrong."),
    Entry("p, p (Holm)", "signs of whole prompts flipped; Holm over the sections of all files", "For the test that nothing changed."),
)  # fmt: skip


def _headlines(result: QualityResult) -> Iterator[Headline]:
    """Each set in a sentence: accuracy, change, and the sections that fell."""
    two = len(result.labels) > 1
    for each in result.sets:
        for label, rates in each.win_rates.items():
            found, by = accuracy_of(each.overall, label), f" by {label}" if two else ""
            shares = f"wins {share(rates.wins)}, ties {share(rates.ties)}, losses {share(rates.losses)}"
            text = f"win rate {share(found)}{by} ({shares}; one half: p {p_equals(rates.test.p_value)}; n = {count(found)})."
            yield Headline(f"{each.name}:", text)
        if each.win_rates:
            continue
        found_by = {label: accuracy_of(each.overall, label) for label in each.labels}
        n, change = count(found_by[result.labels[0]]), each.overall.of("accuracy", "change")
        shown = ", ".join(f"{accuracy(found)}{f' {label}' if two else ''}" for label, found in found_by.items())
        if change is None:
            yield Headline(f"{each.name}:", f"accuracy {shown} (n = {n}).")
        else:
            text = f"accuracy {shown}; change {tenth_points(change)} points (n = {n}). {_fallen(each)}"
            yield Headline(f"{each.name}:", text, _kind(each))


def _fallen(each: SetQuality) -> str:
    changes = {group.name: accuracy_of(group, "change") for group in each.sections if fell(group)}
    if not changes:
        return f"None of {len(each.sections)} sections fell by more than 1 point."
    shown = (f"{name} {tenth_points(by)}{'*' if by.high < 0 else ''}" for name, by in changes.items())
    star = f" (*: and the {PERCENT} interval lies below 0)" if any(by.high < 0 for by in changes.values()) else ""
    return f"Fell by more than 1 point: {', '.join(shown)}{star}."


def _kind(each: SetQuality) -> Literal["good", "bad", "none"]:
    """Bad if a fall is shown, good if one is ruled out for every section, else neither."""
    flags = set(map(flag, each.shown))
    return "bad" if "fell*" in flags else "good" if flags == {"kept"} else "none"


def _sections(result: QualityResult) -> Iterator[ReportSection]:
    two = len(result.labels) > 1
    for place, each in enumerate(result.sets, 1):
        tables, rule = set_tables(each), f"Read as {FORMATS[each.format]}. {MEANINGS[each.format]}"
        fewest = {group.name: group.n_prompts for group in each.shown}
        notes = filter(None, [*set_notes(each, result.scorings[0].unit), few_prompts(fewest)])
        plots = () if each.win_rates else tuple(filter(None, [quality_plot(each, place)]))
        yield ReportSection(f"set-{place}", each.name, (rule,), tuple(tables[:1]), plots, sentences=tuple(notes))
        if tables[1:]:
            yield ReportSection(f"more-{place}", f"{each.name}: more", tables=tuple(tables[1:]), aside=True)
    flags = (FLAGS,) if result.n_tests else ()
    files = "; ".join(f"{each.name}: {each.source}" for each in result.sets)
    tests = f"{result.n_tests} sections; Holm's p allows for all of them" if two else None
    facts = {"files": files, "tests": tests, "seed": result.seed}
    yield how_made(result.versions, (*scoring_sentences(result), *flags), facts)
    yield meaning(*_TERMS, *(_CHANGE_TERMS if two else ()))
