"""What to do after a result: a reason, and a command that runs as it stands. `cda.auditing.next_step` decides for audits, by their
verdicts; the functions here for every other kind of result."""

from __future__ import annotations

import json
import math
import shlex
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePath
from typing import Any

from cda.embedded.model import EMBEDDED
from cda.embedded.texts import EMBEDDED_BIASES, SECOND_TURNS, WITH_CONTRASTS, audit_contrasts
from cda.files.shipped import FOLDERS, names_in
from cda.files.yaml_file import read_yaml_mapping
from cda.inert import inert, width
from cda.report.names import some
from cda.report.numbers import listed, n_of
from cda.results.base import Estimate, Missing, Test
from cda.results.benchmarks import BestOfResult, QualityResult
from cda.results.comparison import AuditRow, ComparisonResult, DiscoveriesResult
from cda.results.data import DataBias, DataResult, DataWeights
from cda.results.discover import DiscoverResult, TopicsResult
from cda.results.dose import CalibrationResult, DoseResult
from cda.results.effects import Contingency, LogOdds
from cda.results.inspect import InspectResult
from cda.results.scored import ScoreResult
from cda.results.study import StudyResult
from cda.scorers.kinds import scorer_kind
from cda.stats.sample_size import triples_for_share
from cda.stats.verdict import SIGNIFICANT, TIE

COLUMNS = 100
"""Of a terminal's line."""
WIDE = 0.1
"""Half of an interval of a share from which more texts are the next step, if nothing is shown."""
POINTS = f"± {100 * WIDE:g} points"
_OPENING, _GOES_ON = "Next: ", " \\"
_FUNCTIONS = ("audit", "calibrate", "compare", "data", "dose", "quality", "train")
"""Commands that a function of the API does as well."""
_MANY_FAILED, _MOST_DIFFERING = 0.2, 3
_UNCHANGED = 200
"""Pairs that are taught as they are, next to counterfactuals."""
DEFAULT_PROMPT = "ours"
OTHER_PROMPTS: Mapping[str, str] = {"judge": "style-blind", "grade": "mt-bench"}
"""The prompt to ask an LLM by after the default one, by the part of the section `score`; a judge is asked in both orders again."""
Named = Callable[[str], str]
"""A word of a command as the user typed it: results keep files without their folders."""


@dataclass(frozen=True, slots=True)
class NextStep:
    """What to do next."""

    why: str
    """A clause in lower case, without a full stop."""
    words: tuple[str, ...] = ()
    """Words of the command behind `cda`; `./` opens a path in the folder of the result. Empty if there is nothing to run."""
    then: tuple[str, ...] = ()
    """Words of a second command, for after what the reason says."""
    in_memory: str = ""
    """Name in Python of a model in memory, the first argument; no command can name it."""

    def shared(self) -> list[str]:
        """The commands for a page, which others may read: without folders of this machine; none if there is nothing to run."""
        return [self._typed(words, _without_folders)[0] for words in (self.words, self.then) if words]

    def command(self, named: Named = str) -> str:
        """The first command as it is typed; empty without one."""
        return self._typed(self.words, named)[0] if self.words else ""

    def within(self, most: int) -> NextStep:
        """The same if it takes `most` lines of a terminal or fewer; else with less of the reason, a clause at a time; and if the commands alone
        take more, the reason as far as it fits: the report has the commands."""
        clauses = [self.why, *(self.why.partition(mark)[0] for mark in ("; ", ": ", " (", ", ")), ""]
        short = [replace(self, why=why) for why in sorted(dict.fromkeys(clauses), key=len, reverse=True)]
        if found := next((each for each in short if (each.words or each.why) and len(each.lines()) <= most), None):
            return found
        words = self.why.split()
        end = "; the command stands in the report" if self.words else ""
        whys = (f"{' '.join(words[:n])}{' …' * (n < len(words))}{end}" for n in range(len(words), 0, -1))
        cut = [NextStep(why) for why in whys]
        return next((each for each in cut if len(each.lines()) <= most), cut[-1])

    def lines(self, named: Named = str, python: bool = False) -> list[str]:
        """For a terminal: reason and command on one line, or the commands below the reason, over as many lines as they take; as calls in
        `python`."""
        opening = f"{_OPENING}{inert(self.why)}"
        if not self.words:
            return textwrap.wrap(f"{opening}.", COLUMNS, break_long_words=False)
        typed = [self._typed(words, named, python) for words in (self.words, self.then) if words]
        opening = opening if self.why else _OPENING.rstrip(": ")
        both = f"{opening}: {typed[0][0]}"
        if not self.then and width(both) <= COLUMNS:
            return [both]
        reason = textwrap.wrap(f"{opening}:", COLUMNS, break_long_words=False)
        return [*reason, *(line for _, lines in typed for line in lines)]

    def _typed(self, words: Sequence[str], named: Named, python: bool = False) -> tuple[str, list[str]]:
        """A command or call on one line, and over several: a shell joins those of a command, those of a call end with its arguments."""
        given = [named(word) for word in words]
        if words[0] in _FUNCTIONS and (python or self.in_memory):
            name, *arguments = map(inert, _call(given, self.in_memory))
            one, broken = f"{name}({', '.join(arguments)})", [f"{name}(", *(f"    {each}," for each in arguments), ")"]
            return one, [f"    {line}" for line in ([one] if width(one) <= COLUMNS - 4 else broken)]
        lines = ["   "]
        for word in map(inert, map(shlex.quote, ("cda", *given))):
            if width(lines[-1]) + width(word) + len(_GOES_ON) >= COLUMNS and lines[-1].strip():
                lines[-1] += _GOES_ON
                lines.append("     ")
            lines[-1] += f" {word}"
        return inert(shlex.join(["cda", *given])), lines


def _call(words: Sequence[str], in_memory: str) -> list[str]:
    """The function of the API that does the same as a command, and its arguments; the first is the model `in_memory` if there is one."""
    first, given, rest = list[str](), dict[str, Any](), iter(words[1:])
    for word in rest:
        path, equals, text = (word[2:], "=", next(rest)) if word.startswith("--") else word.partition("=")
        if not equals:
            first.append(repr(word) if first or not in_memory else in_memory)
            continue
        value: Any = text[1:-1].split(",") if text.startswith("[") else text
        with suppress(ValueError):
            value = json.loads(text)
        if several := {"bias": "biases", "labels": "labels"}.get(path):
            path, value = several, [*given.get(several, ()), text]
        *sections, last = ("model.preset" if path == "model" else path).split(".")
        into = given
        for section in sections:
            into = into.setdefault(section, {})
        into[last] = value
    if words[0] == "quality" and len(first) > 2:  # of several files
        first = [first[0], f"[{', '.join(first[1:])}]"]
    return [
        f"cda.{'audit_data' if words[0] == 'data' else words[0]}",
        *first,
        *(f"{name}={value!r}" for name, value in given.items()),
    ]


def other_widths(why: str, half: float = WIDE) -> NextStep:
    """How many texts intervals of half a width, and others, need."""
    return NextStep(f"{why}; other widths", ("samples", f"{half:g}"))


def _without_folders(word: str) -> str:
    setting, equals, value = word.rpartition("=")
    path = PurePath(value)
    return f"{setting}{equals}{path.name}" if path.is_absolute() or value.startswith("~") else word


def in_python(facts: Any) -> str:
    """The first argument in Python for a model in memory: a function by its own name, a model as `model`."""
    is_function = facts.kind == "judge" or f"‘{facts.name}’" in str(getattr(facts, "how", ""))
    return str(facts.name) if is_function and str(facts.name).isidentifier() else "model"


def as_called(names: Mapping[str, str], folder: Path | None) -> Named:
    """Words with the files as the call named them, by the names that a result has, and paths in the result's folder."""

    def named(word: str) -> str:
        setting, equals, value = word.rpartition("=")
        value = names.get(value, value)
        if folder is not None and value.startswith("./"):
            value = str(folder / value.removeprefix("./"))
        return f"{setting}{equals}{value}"

    return named


def against(biases: Iterable[str]) -> tuple[str, ...]:
    """Words of `cda train` against biases, by name or file: their recipe, or one for all together."""
    turns = {turn: bias for bias, turn in SECOND_TURNS.items()}
    given = [*biases]
    names = list(dict.fromkeys(turns.get(name, name) for name in given))
    # Conversations have a better answer, which a recipe that teaches ties does not.
    more = ("data.second_turn=yes", "objectives=[pairs, keep]") if any(name in turns for name in given) else ()
    own = len(names) == 1 and (names[0].endswith((".yaml", ".yml")) or names[0] in names_in(FOLDERS["recipes"]))
    return (*((names[0],) if own else ("joint", f"biases=[{','.join(names)}]")), *more)


def of_model(name: str) -> tuple[str, ...]:
    """Words by which `cda train` takes a model: its preset if one ships, else its name."""
    if name == EMBEDDED:
        return ()
    preset = _presets().get(name)
    return (f"model={preset}",) if preset else (f"model.name_or_path={name}",)


@cache
def _presets() -> Mapping[str, str]:
    folder = FOLDERS["models"]
    return {read_yaml_mapping(folder / f"{name}.yaml")["model"]["name_or_path"]: name for name in names_in(folder)}


def asked_as(name: str) -> str | None:
    """The part of the section `score` by which a model's LLMs are asked, `judge` or `grade`; None of other models."""
    kind = scorer_kind(name)
    return None if not kind.asks_llm else "judge" if kind.compares else "grade"


def trains(name: str, unnamed: bool = False) -> bool:
    """True for a model that `cda train` takes, by its name; one in memory has none."""
    return scorer_kind(name).trainable and not unnamed


def more_needed(estimates: Iterable[Estimate]) -> int | None:
    """Rows that the widest of these needs for ± `WIDE`, from its width on the rows that are there, which may share prompts; None if
    each is as narrow already."""
    wide = [each for each in estimates if (each.high - each.low) / 2 > WIDE]
    return max((math.ceil(each.n * ((each.high - each.low) / 2 / WIDE) ** 2) for each in wide), default=None)


def _opened(bias: str) -> tuple[str, str]:
    return "--bias", bias


def after_data(result: DataResult) -> NextStep:
    """Biases that decide pairs: list these pairs, or train with their weights; too few pairs to say: how many are needed."""
    shown = [bias.name for bias in result.biases if _decides(bias) and not result.not_told_apart(bias)]
    shipped = names_in(FOLDERS["biases"])
    whole = [bias.name for bias in result.biases if bias.separates and bias.name in shown]
    if kept := [name for name in shown if name in result.left_by_weights()] or whole:
        own = ("train", *against(shown)) if {*shown} <= {*shipped} else ()
        it = "them" if len(kept) > 1 else "it"
        why = f"too few pairs go against {listed(kept)} for weights to take {it} away: add pairs whose sides are alike in {it}"
        return NextStep(f"{why}, or train on counterfactuals", own)
    if isinstance(found := result.weights, DataWeights) and not result.labels and shown and {*shown} <= {*shipped}:
        words = ("train", *against(shown), f"data.supplement={result.rows}", "data.weights=weight")
        n = min(_UNCHANGED, found.n)
        return NextStep(f"train {listed(shown)} away, with the weights", (*words, f"synthesize.supplementary={n}"))
    labels = tuple(word for file in result.labels for word in ("--labels", file))
    if shown:
        words = ("data", result.pairs, *(word for name in shown for word in _opened(name)), "--rows", "rows.jsonl")
        return NextStep(
            f"list the pairs that {listed(shown)} {'decide' if len(shown) > 1 else 'decides'}", (*words, *labels)
        )
    tables = {each.name: each.contingency for each in result.biases if isinstance(each.contingency, Contingency)}
    rates = ((more_needed([table.selection_rate]) or 0, name) for name, table in tables.items())
    needed, name = max(rates, default=(0, ""))
    if needed:
        there = tables[name].selection_rate.n
        more = needed - there
        why = (
            f"nothing is shown; {POINTS} need about {needed} pairs with {name} on one side, {more} more than there are"
        )
        if result.not_drawn:
            words = ("data", result.pairs, *(word for bias in result.biases for word in _opened(bias.name)), *labels)
            return NextStep(f"{why}: leave out --limit, which left {result.not_drawn}", () if result.llm else words)
        further = math.ceil(more / there * result.n_pairs)
        return NextStep(f"{why}: collect about {further} further pairs of this kind, such as from the same source")
    return NextStep("nothing needs doing: no bias is shown to decide the choices")


def _decides(bias: DataBias) -> bool:
    """A preference or an aversion is shown, by the adjusted odds, or by the exact test if there are none."""
    odds = None if isinstance(bias.odds, Missing) else bias.odds.adjusted
    test = odds.test if isinstance(odds, LogOdds) else bias.test
    return isinstance(test, Test) and test.holm < SIGNIFICANT


def after_stage(stage: str, run: str) -> NextStep | None:
    """After a run that ends with a stage: the next one, with the settings of the run's folder."""
    steps = {
        "label": NextStep("rewrite the rejected sides", ("synthesize", run)),
        "synthesize": NextStep("look at the rewrites, then train on them", ("inspect", run)),
        "train": NextStep("measure what it changed", ("train", run)),
        "dose": NextStep("measure what it changed", ("train", run)),
    }
    return steps.get(stage)


def after_merge(out: str, base: str | None, settings: Sequence[str] = ()) -> NextStep:
    """Measure the model with the `settings` that it was trained with, or next to its `base` an adapter."""
    if base is None:
        return NextStep("measure the merged model", ("audit", out, *settings))
    return NextStep("see if it still ranks pairs right", ("quality", base, "embedded", "--adapter", out))


def after_triples(out: str, biases: Iterable[str]) -> NextStep:
    """An audit on them."""
    own = tuple(word for name in biases for word in _opened(name))
    return NextStep(f"audit on them, with your model for {EMBEDDED}", ("audit", EMBEDDED, *own, "--triples", out))


def after_labels(out: str, biases: Iterable[str], columns: Iterable[str]) -> NextStep:
    """What the labels say of the choices; the file holds the pairs, too, with `columns` (ours=theirs) as they were."""
    own = (
        *(word for name in biases for word in _opened(name)),
        *(word for own in columns for word in ("--column", own)),
    )
    return NextStep("see if the choices favour it", ("data", out, *own, "--labels", out))


def after_score(
    result: ScoreResult, again: Sequence[str], rows: str, settings: Sequence[str], *, unnamed: bool = False
) -> NextStep:
    """The same call as long as shards are missing; then what choices of pairs teach, or what the rewards favour."""
    if result.missing:
        other = "" if not unnamed else "; the same call goes on"
        return NextStep(f"score what is missing{other}", () if unnamed else ("score", *again))
    if result.wins is not None:
        return NextStep("which biases go with the choices", ("data", rows, "--limit", "5000"))
    if unnamed:
        return NextStep("which biases it rewards", ("audit", "model"), in_memory="model")
    return NextStep("which biases it rewards", ("audit", again[0], *settings))


def after_texts(contrasts: str) -> NextStep:
    """People's votes on the contrasts, of which audits and calibrations make use."""
    return NextStep("ask people about them", ("study", "export", contrasts, "study"))


def after_export(folder: str, answers: str | None) -> NextStep:
    """The import of what people answered: of a table that is filled in place."""
    if answers is None:
        return NextStep(f"when people have judged, cda study import {folder} and the files that their tool exports")
    return NextStep("fill it in, then import it", ("study", "import", folder, answers))


def after_discovery(result: DiscoverResult | TopicsResult) -> NextStep:
    """Train against the first bias file; or measure it, on a model that cannot be trained."""
    files = _bias_files(result)
    if not files:
        return NextStep(
            "nothing needs doing: no bias is confirmed; more prompts would show smaller ones (discover.max_test)"
        )
    name, file = result.model.name, f"./{files[0]}"
    if result.model.adapter is not None:
        out = f"{Path(result.model.adapter).name}-merged"
        return NextStep(
            "merge the adapter, to train the result against a bias file", ("merge", result.model.adapter, "--out", out)
        )
    if trains(name, result.model.unnamed):
        return NextStep("train the first one away", ("train", file, *of_model(name)))
    if result.model.unnamed:
        return NextStep("measure the first one on your model", ("audit", "model", "--bias", file), in_memory="model")
    return NextStep("measure the first one by itself", ("audit", name, "--bias", file))


def _bias_files(result: DiscoverResult | TopicsResult) -> list[str]:
    if isinstance(result, DiscoverResult):
        return [entry.file for entry in result.tested if entry.file]
    return [cell.file for row in result.by_attribute for cell in row.levels if cell.file]


def after_quality(result: QualityResult) -> NextStep:
    """One model: its biases. Two: less of the second where it falls, else nothing."""
    first, last = result.scorings[0], result.scorings[-1]
    if first is last:
        if first.facts.unnamed:
            return NextStep("measure its biases, too", ("audit", "model"), in_memory=in_python(first.facts))
        return NextStep("measure its biases, too", ("audit", first.target))
    changes = [each.overall.of("accuracy", "change") for each in result.sets if not each.win_rates]
    known = [each for each in changes if each is not None]
    if last.adapter is not None and any(each.high < 0 for each in known):
        half = (1.0 if last.dose is None else last.dose) / 2
        files = tuple(each.source for each in result.sets)
        words = ("quality", first.target, *files, "--adapter", last.adapter, "--dose", f"{half:g}")
        return NextStep("try half of the adapter", words)
    if any(each.high < 0 for each in known):
        return NextStep(
            "keep the first: the second ranks fewer pairs right. Its biases",
            () if last.facts.unnamed else ("audit", last.target),
        )
    if needed := more_needed(known):
        return other_widths(f"no change is shown; {POINTS} need about {needed} items")
    return NextStep("nothing needs doing: no fall is shown")


def after_best_of(result: BestOfResult) -> NextStep:
    """A bias that picking by the reward amplifies: train it away, or measure it where nothing can be trained."""
    label = result.scorings[-1]
    biases = names_in(FOLDERS["biases"])
    grown = [
        (found.value, curve.name)
        for curve in result.attributes
        if isinstance(found := curve.slope[label], Estimate) and found.low > 0 and curve.name in biases
    ]
    if not grown:
        of = "" if len(result.scorings) == 1 else f" {label}"
        return NextStep(f"nothing needs doing: picking by the{of} reward is not shown to amplify a bias")
    name, model = max(grown)[1], result.models[label]
    if model.adapter is not None:
        half = (1.0 if model.dose is None else model.dose) * 2
        words = ("best-of", model.model, result.responses, "--adapter", model.adapter, "--dose", f"{half:g}")
        return NextStep(f"{name} still grows: try more of the adapter", words)
    if trains(model.model, model.facts.unnamed):
        return NextStep(f"train {name} away", ("train", *against([name]), *of_model(model.model)))
    if model.facts.unnamed:
        return NextStep("measure it on contrasts", ("audit", "model", *_opened(name)), in_memory=in_python(model.facts))
    return NextStep(f"is {name} itself rewarded, or what goes with it?", ("audit", model.model, *_opened(name)))


def after_comparison(result: ComparisonResult) -> NextStep:
    """The one in the first place, if it is shown to be there alone; else how many texts would tell them apart, or in what they differ."""
    leaders = next((result.leaders(group) for group in result.ranked if group.audits), [])
    ties = {name for name, row in result.audits.items() if {*row.biases} == {*row.tied}}
    differ = {
        (name, bias): found.test.holm < SIGNIFICANT
        for name, on in result.paired.items()
        if not ties & {name, result.against}
        for bias, found in on.items()
        if not isinstance(found, Missing)
    }
    among = dict.fromkeys(
        bias for (name, bias), shown in differ.items() if shown and {name, result.against} <= {*leaders}
    )
    level = len(leaders) > 1
    rows = [result.audits[name] for name in leaders] or [row for name, row in result.audits.items() if name not in ties]
    if level and (needed := max((n for row in rows for n in row.needed.values()), default=0)):
        return _with_more("more contrasts are needed", rows, needed)
    if (differ and not any(differ.values())) or (level and not among):
        return _with_more("no difference is shown", rows)
    if not leaders:
        return _not_ranked(result)
    if level:
        return NextStep(f"choose by what matters to you: text by text they differ in {some([*among], 'measures')}")
    row, leader = result.audits[leaders[0]], leaders[0]
    rewarded = {
        bias: found.value
        for bias in row.biases
        if isinstance(found := row.last("skew", bias), Estimate) and found.low > TIE
    }
    if row.training is None and rewarded and trains(row.model, row.unnamed):
        name = max(rewarded, key=lambda bias: rewarded[bias])
        return NextStep(f"train {name} away from the first one", ("train", *against([name]), *of_model(row.model)))
    source = result.sources[leader]
    return NextStep("the first one by itself", () if source.endswith(".json") else ("report", source))


def _with_more(why: str, rows: Sequence[AuditRow], needed: int = 0) -> NextStep:
    """Audits on so many contrasts, or on those that narrower intervals need: shipped ones that were not drawn, or where to take them."""
    texts = [(name, found) for row in rows for name, found in row.texts.items()]
    there = max((found.n for name, found in texts if name.startswith("contrasts of ")), default=0)
    half = WIDE if there < triples_for_share(WIDE) else WIDE / 2
    points, needed = "" if needed else f"± {100 * half:g} points need ", needed or triples_for_share(half)
    why = f"{why}: {points}{needed} contrasts of a bias, and {there} are there"
    if not all(found.name.startswith(EMBEDDED) for _, found in texts):
        return NextStep(f"{why}; leave out --limit or raise it if it was given, else write more contrasts")
    if there >= len(audit_contrasts(EMBEDDED_BIASES[:1])):
        return NextStep(f"{why}, all that are shipped; write more (--contrasts)")
    words = _again(rows)
    return NextStep(f"{why}; leave out --limit, or raise it", words and (*words, "--limit", str(needed)))


def _not_ranked(result: ComparisonResult) -> NextStep:
    """Why no audit has a place: pairs that score alike, or other texts, and then the models again on the shipped texts of their biases."""
    tied = [name for group in result.ranked for name in group.tied]
    rows = list(result.audits.values())
    ranking = [bias for bias in rows[0].biases if not any(bias in result.audits[name].tied for name in tied)]
    if tied and ranking and _on_shipped(rows) and (words := _again(rows, ranking, limited=True)):
        return NextStep(f"compare them on {some(ranking)}, where none scores most pairs alike", words)
    apart = (*tied, *(name for group in result.ranked for name in group.by_place))
    if found := next((result.sources[name] for name in apart if not result.sources[name].endswith(".json")), None):
        return NextStep("see how one without a place scores its pairs", ("report", found))
    if len(rows) == 1:
        return NextStep("compare it with another on the same texts, for ranks and differences")
    measured = dict.fromkeys(what for row in rows for what in row.texts)
    contents = {what: {(texts := row.texts.get(what)) and texts.content for row in rows} for what in measured}
    differ = [what for what, own in contents.items() if len(own) > 1 or None in own]
    why = "compare them on the same texts, for ranks and differences"
    if differ:
        more = f", and in {len(differ) - _MOST_DIFFERING} more" if len(differ) > _MOST_DIFFERING else ""
        why += f"; they differ in {listed(differ[:_MOST_DIFFERING])}{more}"
    return NextStep(why, _again(rows))


def _on_shipped(rows: Sequence[AuditRow]) -> bool:
    return all(texts.name.startswith(EMBEDDED) for row in rows for texts in row.texts.values())


def _again(rows: Sequence[AuditRow], ranking: Sequence[str] = (), limited: bool = False) -> tuple[str, ...]:
    """Words that audit and compare the models of rows on the shipped texts of their biases, or of those that give a `ranking`, and if
    `limited` on no more of these than they were; none if a command cannot name them all."""
    models = dict.fromkeys(row.model for row in rows)
    biases = dict.fromkeys(ranking or (bias for row in rows for bias in row.biases))
    known = all(row.training is None and not row.unnamed for row in rows)
    if not known or len(models) < len(rows) or not {*biases} <= {*names_in(FOLDERS["biases"])}:
        return ()
    own = () if {*biases} == {*WITH_CONTRASTS} else (word for bias in biases for word in _opened(bias))
    drawn = [
        row.texts[f"contrasts of {bias}"].n for row in rows for bias in biases if f"contrasts of {bias}" in row.texts
    ]
    there = [len(audit_contrasts([bias])) for bias in biases if bias in EMBEDDED_BIASES]
    limit = (
        ("--limit", str(max(drawn)))
        if limited and _on_shipped(rows) and drawn and there and max(drawn) < min(there)
        else ()
    )
    return ("compare", *models, *own, *limit)


def after_discoveries(result: DiscoveriesResult) -> NextStep:
    """The search that confirmed most."""
    name, most = max(result.discoveries.items(), key=lambda item: item[1].n_confirmed)
    if not most.n_confirmed:
        return NextStep("nothing needs doing: no search confirmed a bias")
    return NextStep(
        f"train against the bias files of {name}, which confirmed {most.n_confirmed}; they lie in its folder biases"
    )


def after_dose(result: DoseResult) -> NextStep:
    """How the dose that was chosen for mixed scores is carried over to an adapter; none of it if that is best."""
    if result.chosen == 0:
        return NextStep("nothing needs doing: the model before is closest to people")
    if not result.mixed:
        return NextStep("the adapter of the run has this dose")
    return NextStep("choose on the adapter itself, which has another curve (cda dose, with its run's folder)")


def after_calibration(result: CalibrationResult) -> NextStep:
    """Audit with the calibration; where none helps, ask in another way or collect more votes."""
    name = result.scorer
    if result.strength and result.facts.unnamed:
        return NextStep("give the functions that score your model its file as score={'calibration': …}")
    if result.strength:
        biases = tuple(word for bias in result.corrections for word in _opened(bias))
        files = tuple(
            word
            for kind, unset in (("contrasts", None), ("votes", None), ("quality", EMBEDDED))
            if (file := result.sources.get(kind)) not in (unset, EMBEDDED)
            for word in (f"--{kind}", str(file or "none"))
        )
        return NextStep(
            "see what it changes", ("audit", name, *biases, f"score.calibration=./{result.made_by.file}", *files)
        )
    if (part := asked_as(name)) and getattr(result.facts, "prompt", None) in (None, DEFAULT_PROMPT):
        prompt = OTHER_PROMPTS[part]
        words = ("audit", name, f"score.{part}.prompt={prompt}", "--out", f"runs/{part}-{prompt}")
        return NextStep("ask by another prompt", words)
    return NextStep("more votes may show a gain; how many an interval needs", ("samples", "0.05"))


def after_inspection(result: InspectResult) -> NextStep:
    """The rewrites that failed, if many did; else the next stage."""
    failed = [each.failed for each in result.summaries if isinstance(each.failed, Estimate)]
    if result.worst != "failed" and any(each.value > _MANY_FAILED for each in failed):
        return NextStep("see those that failed first", ("inspect", result.target, "--worst", "failed"))
    if result.target.endswith(".jsonl"):
        own = tuple(word for name in dict.fromkeys(each.bias for each in result.summaries) for word in _opened(name))
        return NextStep(
            "audit on them; with your model for embedded",
            ("audit", EMBEDDED, *own, "--triples", result.target, "--contrasts", "none"),
        )
    model, biases = result.scored_by, list(dict.fromkeys(each.bias for each in result.summaries))
    if (changes := _changes(result)) and not any(changes):
        return NextStep(f"{model} does not look at {some(biases)} in these: all right if that is meant, else mend it")
    if result.target in names_in(FOLDERS["biases"]) and model is not None and not trains(model):
        return NextStep("how often it prefers either side", ("audit", model, *_opened(result.target)))
    if result.target in names_in(FOLDERS["recipes"]) or result.target.endswith((".yaml", ".yml")):
        return NextStep("the rewrites look right? Train on them", ("train", result.target))
    if result.target in names_in(FOLDERS["biases"]):
        own = () if model is None else of_model(model)
        return NextStep("the rewrites look right? Train on them", ("train", *against([result.target]), *own))
    return NextStep("what the run found", ("report", result.target))


def inspection_conclusion(result: InspectResult) -> str:
    """How many of the rewrites that are shown changed the reward; empty without rewards."""
    changes = _changes(result)
    up, down = sum(each > 0 for each in changes), sum(each < 0 for each in changes)
    said = f"The {result.unit} changed in {up + down} of {n_of(len(changes), 'rewrite')} shown: {up} up, {down} down."
    return said if changes else ""


def _changes(result: InspectResult) -> list[float]:
    return [each.difference for each in result.examples if each.difference is not None]


def after_study(result: StudyResult, again: Sequence[str], audited: Sequence[str]) -> NextStep:
    """The import `again` once judgements that are missing have come; else the audit that the votes are for, of these contrasts and votes."""
    if missing := sum(item.missing for item in result.items):
        return NextStep(f"{missing} judgements are missing; once they are there", tuple(again))
    biases = tuple(word for name in result.biases for word in _opened(name))
    return NextStep("audit by the votes; with your model for embedded", ("audit", EMBEDDED, *biases, *audited))
