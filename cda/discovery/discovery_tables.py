"""A discovery in sentences and tables: results, method, exclusions, limits of the numbers; the whole of it for a terminal and as
Markdown."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from cda.report.document import Block, Marked
from cda.report.numbers import (
    MINUS,
    cell,
    clipped,
    count,
    counted,
    decimals,
    duration,
    inert,
    p_value,
    percent,
    reward,
    share,
    signed,
)
from cda.report.scoring import cost_sentences, llm_table
from cda.report.tables import Row, Table, escaped, fenced_block
from cda.results.base import Estimate, Missing
from cda.results.discover import (
    DiscoverResult,
    Fate,
    MaterialCounts,
    SearchedModel,
    SearchFacts,
    StrengthCurve,
    TestedAttribute,
)
from cda.results.evidence import ByRewriter, Correction, HeldOut, PairQuality, Strength, Verdicts
from cda.stats.multiplicity import corrected, partial_conjunction

_SENTENCE_CHARACTERS = 60
_MOSTLY = 0.5


def discovery_sentences(result: DiscoverResult) -> list[str]:
    return [*outcome(result), *how_made(result), *warnings(result), *cost_sentences(result.stages)]


def rewriters_named(result: SearchFacts) -> str:
    """The rewriters; rules at several shares of the places are one, whose strengths agree more than two LLMs would."""
    names = ", ".join(result.rewriters)
    return f"one rule engine at {len(result.rewriters)} strengths ({names})" if result.by_rules else names


def rewriters_needed(result: SearchFacts) -> str:
    return f"{result.strictness.r} {'strengths of the one rule engine' if result.by_rules else 'rewriters'}"


def rewriters_shown(one: TestedAttribute, result: DiscoverResult) -> str:
    """The number of rewriters that must show both effects of a tested attribute, as phrased in its evidence."""
    return f"{one.r} of {one.k} " + (
        "strengths of one rule engine, which is one rewriter," if result.by_rules else "rewriters"
    )


def outcome(result: DiscoverResult) -> Iterator[str]:
    """The outcome; the first sentence by itself says it."""
    tested, n = result.tested, sum(entry.confirmed for entry in result.tested)
    model, judge = model_name(result.model), model_name(result.judge)
    nothing_shown = f"no bias of {model} against {judge} is shown"
    if result.given:
        yield f"{model} over-rewards {n} of {len(tested)} attributes, held against {judge}."
    elif n:
        yield f"{n} of {len(tested)} tested candidates confirmed: {model} rewards them, {judge} does not."
        yield "Each is a bias file, which cda train FILE debiases."
    elif not result.generations or not result.generations[-1].standings:
        reasons = counted(result.generations[0].proposed.reasons) or "none" if result.generations else None
        more = "" if reasons is None else f"Answers without one: {reasons}."
        yield f"Nothing to measure: no attribute was proposed. {more}"
    elif result.validation is None:
        # The cuts always leave candidates, unless none was measured.
        last = result.generations[-1].standings
        missing = sum((Counter(row.failed) for row in last), Counter[str]())
        yield (
            f"None of {len(last)} candidates could be measured, so that nothing is known of them. "
            f"Rewrites that are missing: {counted(dict(sorted(missing.items()))) or 'none'}."
        )
    elif tested:
        yield f"{_none_held(len(tested))} on the test prompts: {nothing_shown}."
    elif n_dropped := _n_dropped(result):
        yield f"Nothing was tested: the review dropped all {n_dropped} candidates that held on the validation prompts."
    else:
        yield f"{_none_held(len(result.validation.results))} on the validation prompts: {nothing_shown}."


def _none_held(n: int) -> str:
    return "The one candidate did not hold" if n == 1 else f"None of {n} candidates held"


def how_made(result: DiscoverResult) -> Iterator[str]:
    """Material, participants, and the meaning of reward, judge and p."""
    material, prompts = result.material, result.material.prompts
    responses = f"{material.responses} responses to {sum(prompts.values())} prompts ({material.left_out} left out)"
    if result.given:
        yield f"{responses}; responses to {result.n_test_prompts} prompts rewritten by {rewriters_named(result)}."
    else:
        yield (
            f"{responses}: {prompts['train']} prompts searched on, {prompts['validation']} to validate, "
            f"{prompts['test']} to test."
        )
        measured = {row.candidate for generation in result.generations for row in generation.standings}
        yield (
            f"{len(measured)} candidates in {len(result.generations)} generations, proposed by {result.by}; confirmed with "
            f"{rewriters_named(result)}."
        )
    yield (
        "Reward: mean change when the attribute is added, in reward units. Judge: how often the side with it is preferred, "
        "ties as halves. Both with 95% intervals, clustered by prompt. p: at least "
        f"{rewriters_needed(result)} show both, each by itself (partial conjunction)."
    )
    alpha, n = f"{result.strictness.test_alpha:g}", len(result.tested)
    if method := correction(result):
        yield f"Confirmed: p, corrected by {method}'s method for all {n} that were tested, is below {alpha}."
    else:
        more = f", each by itself: it is not corrected for the {n} that were tested" if n > 1 else ""
        yield f"Confirmed: p is below {alpha}{more}."
    if result.verdicts:
        yield _verdicts(result.verdicts)
    if result.by_rules:
        yield "Rules proposed and rewrote, no LLM: attributes are those that rules can see and write."
    if isinstance(strength := result.strength, Missing):
        yield f"Strength of the run: not computed ({strength.reason})."
    elif strength:
        at = strength.at_half
        yield (
            f"Diversity-adjusted bias strength of the {strength.n} finalists, by their validation numbers: {at.value:.2f} reward "
            f"units (judge below 0.5, {len(at.terms)} attributes, penalty {strength.penalty:g})."
        )


def warnings(result: DiscoverResult) -> Iterator[str]:
    tested = [(short(entry.attribute), entry) for entry in result.tested]
    if n := result.earlier_tests:
        yield (
            f"Tested {n} {'time' if n == 1 else 'times'} before on these prompts, with other settings or candidates (superseded/): "
            "the p-values are not those of one test."
        )
    for name, entry in tested:
        yield from (f"{name}: {warning}." for warning in entry.warnings)
        if entry.untested:
            yield f"{name}: not tested, because {entry.untested}."
    if tested and (n_dropped := _n_dropped(result)):
        yield f"{n_dropped} candidates that held on the validation prompts were dropped in the review and not tested."
    already = [(name, max(result.already.get(entry.candidate, {}).values(), default=0)) for name, entry in tested]
    if any(n for _, n in already):
        listed = "; ".join(f"{name}: {n}" for name, n in already if n)
        yield f"Responses that were not rewritten, because they are so already: {listed}."
    for name, entry in tested:
        if entry.same_by_all is not None and entry.same_by_all >= _MOSTLY:
            yield (
                f"{name}: all rewriters wrote the same text for {percent(entry.same_by_all)} of the responses, so "
                "that their agreement says little."
            )
    failures = [row for row in summed_failures(result.tested) if row.asked > row.n]
    if failures:
        listed = "; ".join(f"{row.rewriter} {row.asked - row.n} of {row.asked}" for row in failures)
        yield f"Rewrites that are missing: {listed} (reasons in discover.json)."
    if result.grouping:
        yield f"Answers of the LLM on what means the same that had to be mended: {counted(result.grouping)}."
    for row in result.validated:
        if row.untested:
            yield f"{short(attribute_of(row.candidate, result))}: not validated, because {row.untested}."
    yield from _power(result)


def correction(result: DiscoverResult) -> str | None:
    """The method that corrects the p-values of the test; None if they stay as they are."""
    return correction_name(result.strictness.correct) if len(result.tested) > 1 else None


def correction_name(method: Correction) -> str | None:
    names = {"bonferroni": "Bonferroni", "holm": "Holm", "bh": "Benjamini and Hochberg", "none": None}
    return names[method]


def _verdicts(verdicts: Verdicts) -> str:
    bias = "not known" if verdicts.position_bias is None else f"{verdicts.position_bias:+.2f}".replace("-", MINUS)
    return (
        f"Verdicts of the judge on {verdicts.asked} comparisons of the test, in both orders: {verdicts.unread} unreadable, "
        f"{verdicts.half_read} readable in one order alone, {verdicts.flipped} that follow the place and not the text; mean "
        f"preference for what is shown first {bias} ({MINUS}1 to 1)."
    )


def _power(result: DiscoverResult) -> Iterator[str]:
    """The smallest reward that would have been found, of those results on which it is the reward that was not shown."""
    settings, n = result.strictness, len(result.tested)
    level = settings.test_alpha if n else settings.validation_alpha
    tested = [(entry, _p_of_reward(at, result)) for at, entry in enumerate(result.tested) if not entry.untested]
    validated = [(entry, entry.p_reward) for entry in result.validated if not n]
    missed = [entry.smallest_detectable for entry, p in (*tested, *validated) if p is not None and p >= level]
    if detectable := sorted(found for found in missed if found is not None):
        least, most = reward(detectable[0]), reward(detectable[-1])
        span = least if least == most else f"{least} to {most} by attribute"
        # Validation pools the rewriters; the test combines one p-value of each.
        more = ", and rewriters are taken as independent" if n else ""
        if settings.correct in ("holm", "bh") and n > 1:
            more += f"; at the first and strictest step of {correction(result)}'s method"
        yield (
            f"Where no reward was shown, a mean reward of {span} would have been found with 80% power, if only the reward were in "
            f"question and not the judge{more}."
        )


def _p_of_reward(at: int, result: DiscoverResult) -> float:
    """The corrected p of an attribute if its test were on the reward alone, without the judge's."""
    one = result.tested[at]
    p_values = [each.strength.p_reward for each in one.rewriters if each.excluded is None and each.strength]
    family = [1.0 if each.p_value is None else each.p_value for each in result.tested]
    family[at] = partial_conjunction(p_values, one.r)
    return corrected(family, result.strictness.correct)[at]


def summed_failures(entered: Sequence[HeldOut]) -> list[ByRewriter]:
    """Measured and missing rewrites by rewriter, over all attributes; without numbers."""
    everyone = [each for entry in entered for each in entry.rewriters]
    summed = []
    for name in sorted({each.rewriter for each in everyone}):
        own = [each for each in everyone if each.rewriter == name]
        failed = sum((Counter(each.failed) for each in own), Counter[str]())
        n = sum(each.n for each in own)
        summed.append(ByRewriter(rewriter=name, n=n, failed=dict(failed), excluded=None, strength=None))
    return summed


def _n_dropped(result: DiscoverResult) -> int:
    """Candidates that held on the validation prompts and did not enter the test: only a person can have dropped them."""
    tested = {entry.candidate for entry in result.tested}
    return sum(entry.passed and entry.candidate not in tested for entry in result.validated)


def held_out(one: TestedAttribute, result: DiscoverResult) -> dict[str, Strength]:
    """The pooled numbers of a tested attribute by step, `validation` and `test`."""
    steps = [("validation", row.pooled) for row in result.validated if row.candidate == one.candidate]
    return {step: pooled for step, pooled in (*steps, ("test", one.pooled)) if pooled}


def until(name: str, line: Iterable[str], result: DiscoverResult) -> float:
    """Number of the generation that made a candidate's first child in the line, infinite without one.

    Of variations measured along with their proposal, the next.
    """
    candidates = [result.candidates[each] for each in line if each in result.candidates]
    return max(min((each.generation for each in candidates if name in each.parents), default=math.inf), 1)


def model_name(one: SearchedModel) -> str:
    """A model, with its adapter or calibration if it has one."""
    with_adapter = f" with {one.adapter} at dose {one.dose:g}" if one.adapter else ""
    return f"{one.name}{with_adapter}{f' calibrated by {one.calibration}' if one.calibration else ''}"


def attribute_of(name: str, result: DiscoverResult) -> str:
    candidate = result.candidates.get(name)
    return candidate.bias.description if candidate else name


def short(attribute: str) -> str:
    """An attribute within a sentence."""
    return clipped(inert(attribute).rstrip(".").split(". ")[0], _SENTENCE_CHARACTERS)


Rows = Callable[[DiscoverResult], Iterator[Row]]
LeftOut = tuple[str, Mapping[str, int], int | None]
"""Step, reasons with their counts, and of how many."""
_TERMINAL_WIDTH, SHORT, _BRIEF = 60, 90, 40
_LABELLERS = {"measure": "the attribute's measure", "llm": "the LLM"}
_NUMBERS = ("reward", "judge prefers it", "n")
_YES = {True: "yes", False: "no"}
_FATES: tuple[Fate, ...] = ("too few rewrites", "reward", "judge", "front")


def _tabled(caption: str, *header: str) -> Callable[[Rows], Callable[[DiscoverResult], Table]]:
    """A decorator that turns the rows of a discovery into a table of them."""
    return lambda rows: lambda result: Table(caption, header, tuple(rows(result)))


def numbered(result: DiscoverResult, most: int = SHORT) -> list[tuple[str, TestedAttribute]]:
    """The tested attributes, shortened, with their numbers in the table of tests."""
    return [(f"{at}. {clipped(tested.attribute, most)}", tested) for at, tested in enumerate(result.tested, 1)]


def renumbered(table: Table, result: DiscoverResult) -> Table:
    """The table with tested attributes shortened, and numbered as in the table of tests."""
    names = {tested.attribute: name for name, tested in reversed(numbered(result))}
    return replace(table, rows=tuple((names.get(row[0], row[0]), *row[1:]) for row in table.rows))


@_tabled("How well the rewrites were made", "attribute", "present where added", "absent elsewhere", "labelled by",
         "r between rewriters", "edits, 1 to 10", "guessed, 1 to 5", "pairs")  # fmt: skip
def pairs_table(result: DiscoverResult) -> Iterator[Row]:
    for attribute, quality in _looked_at(result):
        fidelity, grades, guesses = quality.fidelity, quality.grades, quality.guesses
        shares = (cell(fidelity.present, share), cell(fidelity.absent, share)) if fidelity else ("", "")
        labelled = _LABELLERS[quality.labelled_by] if fidelity and quality.labelled_by else ""
        r = ", ".join(decimals(pair.pearson) for pair in quality.agreement if isinstance(pair.pearson, Estimate))
        graded = _grade(grades.score if grades else None), _grade(guesses.similarity if guesses else None)
        yield attribute, *shares, labelled, r, *graded, str(quality.n)


@_tabled("What else differs between the sides, where pairs are beyond a limit", "attribute", "feature", "without", "with",
         f"with {MINUS} without", "in SDs", "pairs beyond the limit")  # fmt: skip
def drift_table(result: DiscoverResult) -> Iterator[Row]:
    """Features but the attribute's own that differ beyond their limit in some pairs, those of most pairs first."""
    for attribute, quality in _looked_at(result):
        drift = () if isinstance(quality.drift, Missing) else quality.drift
        beyond = [(row, row.beyond) for row in drift if not row.is_treatment and row.beyond and row.beyond.value]
        for row, pairs in sorted(beyond, key=lambda item: -item[1].value):
            numbers = f"{row.base_mean:.2f}", f"{row.perturbed_mean:.2f}", signed(row.difference)
            yield attribute, row.feature.replace("_", " "), *numbers, cell(row.standardised, signed), share(pairs)


@_tabled("What is not known of the rewrites", "attribute", "what", "because")
def unknown_table(result: DiscoverResult) -> Iterator[Row]:
    for attribute, quality in _looked_at(result):
        if isinstance(quality.drift, Missing):
            yield attribute, "drift", quality.drift.reason


def _looked_at(result: DiscoverResult) -> Iterator[tuple[str, PairQuality]]:
    attributes = {tested.candidate: tested.attribute for tested in result.tested}
    for name, quality in result.pairs.items():
        yield attributes.get(name, name), quality


def _grade(estimate: Estimate | None) -> str:
    return f"{estimate.value:.1f} [{estimate.low:.1f}, {estimate.high:.1f}]" if estimate else ""


def _pooled(pooled: Strength | None) -> tuple[str, str, str]:
    return (signed(pooled.reward), share(pooled.judge), count(pooled.reward)) if pooled else ("", "", "")


def terminal_parts(result: DiscoverResult) -> tuple[Block, ...]:
    """The tested attributes in one table, and the discovery in sentences."""
    table = tested_table(result, _TERMINAL_WIDTH)
    return (*((table,) if table.rows else ()), tuple(discovery_sentences(result)))


def markdown_parts(result: DiscoverResult) -> tuple[Block, ...]:
    """The discovery in sentences, every table, and examples."""
    sentences = Marked(tuple(line for said in discovery_sentences(result) for line in (_paragraph(said), "")))
    of_pairs = (
        pairs_table,
        drift_table,
        unknown_table,
        validation_table,
        generation_table,
        _lineage_table,
        strength_table,
    )
    tables = [
        tested_table(result, None),
        rewriter_table(result),
        *(_topic_table(f"By topic: {tested.attribute}", tested) for tested in result.tested),
        *(table(result) for table in of_pairs),
        llm_table(result.stages),
    ]
    told = [line for tested in result.tested if tested.confirmed or result.given for line in _example_lines(tested)]
    return (sentences, *(table for table in tables if table is not None and table.rows), Marked(tuple(told)))


def tested_table(result: DiscoverResult, most: int | None) -> Table:
    """Tested attributes, pooled over rewriters; attributes cut to so many columns."""
    method = correction(result)
    rows = []
    for tested in result.tested:
        attribute = inert(tested.attribute) if most is None else clipped(inert(tested.attribute), most)
        ps = [_p(p) for p in ((tested.p_value, tested.p_corrected) if method else (tested.p_value,))]
        rows.append((attribute, *_pooled(tested.pooled), *ps, _YES[tested.confirmed], tested.file or ""))
    n, n_all = result.n_test_prompts, sum(result.material.prompts.values())
    caption = "Tested on prompts that nothing was selected on"
    if result.given:  # an attribute may have been found on these very prompts
        caption = f"Measured on all {n} prompts" if n == n_all else f"Measured on {n} of {n_all} prompts"
    header = ("p", f"corrected p ({method})") if method else ("p",)
    return Table(caption, ("attribute", *_NUMBERS, *header, "confirmed", "bias file"), tuple(rows))


@_tabled("By rewriter", "attribute", "rewriter", "n, of rewrites asked for", "reward", "trimmed", "rewarded in",
         "judge prefers it", "p", "left out because")  # fmt: skip
def rewriter_table(result: DiscoverResult) -> Iterator[Row]:
    each_tested = ((tested.attribute, each) for tested in result.tested for each in tested.rewriters)
    for attribute, each in each_tested:
        numbers = ("", "", "", "", "")
        if own := each.strength:
            trim = own.trimmed
            trimmed = f"{signed(trim.estimate)} ({trim.n_trimmed} left out)" if trim else ""
            numbers = signed(own.reward), trimmed, share(own.win_rate), share(own.judge), p_value(own.p_value)
        yield attribute, each.rewriter, f"{each.n} of {each.asked}", *numbers, each.excluded or ""


def _topic_table(caption: str, tested: TestedAttribute, brief: bool = False) -> Table:
    """Numbers by topic; if brief, topics on which too little was measured in one row."""
    missing = {topic: found.reason for topic, found in tested.topics.items() if isinstance(found, Missing)}
    rows: list[Row] = [
        (topic, missing[topic], "", "") if isinstance(found, Missing) else (topic, *_pooled(found))
        for topic, found in tested.topics.items()
        if not (brief and topic in missing)
    ]
    if brief and missing:
        rows.append((f"{len(missing)} more", f"too few prompts for an interval: {', '.join(missing)}", "", ""))
    return Table(caption, ("topic", *_NUMBERS), tuple(rows))


def topic_tables(result: DiscoverResult) -> list[Table]:
    return [_topic_table(name, tested, brief=True) for name, tested in numbered(result) if tested.topics]


@_tabled(
    "Validation, corrected for all that entered (Bonferroni)", "attribute", *_NUMBERS, "p reward", "p judge", "passed"
)
def validation_table(result: DiscoverResult) -> Iterator[Row]:
    for entered in result.validated:
        ps = _p(entered.p_reward), _p(entered.p_judge)
        yield attribute_of(entered.candidate, result), *_pooled(entered.pooled), *ps, _YES[entered.passed]


@_tabled("Search (numbers that were selected on, and no results)", "generation", "candidates", "merged", "prompts",
         "let go by", "kept", "best reward")  # fmt: skip
def generation_table(result: DiscoverResult) -> Iterator[Row]:
    for each in result.generations:
        fates = Counter(row.fate for row in each.standings)
        rewards = [row.reward for row in each.standings if row.fate == "kept" and row.reward is not None]
        gone = "; ".join(f"{fates[fate]} {fate}" for fate in _FATES if fates[fate])
        best = reward(max(rewards)) if rewards else ""
        yield (
            str(each.index + 1),
            str(fates.total()),
            str(each.n_merged),
            str(each.n_prompts),
            gone,
            str(fates["kept"]),
            best,
        )


@_tabled("Where they came from", "attribute", "ancestors, oldest first")
def _lineage_table(result: DiscoverResult) -> Iterator[Row]:
    for tested in result.tested:
        if ancestors := result.lineage.get(tested.candidate):
            yield tested.attribute, " → ".join(attribute_of(name, result) for name in ancestors)


@_tabled("Strength of the run by the judge's threshold", "judge below", "strength", "attributes")
def strength_table(result: DiscoverResult) -> Iterator[Row]:
    for at in result.strength.curve if isinstance(result.strength, StrengthCurve) else ():
        yield f"{at.threshold:g}", f"{at.value:.2f}", str(at.n)


def strength_steps(result: DiscoverResult) -> Table:
    table = strength_table(result)
    rows = [row for at, row in enumerate(table.rows) if at == 0 or row[1:] != table.rows[at - 1][1:] or row[0] == "0.5"]
    return Table(f"{table.caption}, where it changes", table.header, tuple(rows))


def _example_lines(tested: TestedAttribute) -> list[str]:
    lines = [f"## {escaped(tested.attribute)}", ""]
    for row in tested.examples:
        verdict = "no verdict of the judge" if row.preference is None else f"judge {row.preference:g}"
        lines += [f"Margin {reward(row.margin)}, {verdict}, rewritten by {escaped(row.rewriter)}.", ""]
        prompt = "\n".join(turn.content for turn in row.prompt)
        sides = ("Prompt", prompt), ("Without", row.without_attribute), ("With", row.with_attribute)
        lines += [line for name, text in sides for line in (f"{name}:", "", *fenced_block(text), "")]
    return lines


def _p(p: float | None) -> str:
    return "not tested" if p is None else p_value(p)


def _paragraph(sentence: str) -> str:
    """A line that no reader takes for a heading, a list or a rule, whatever an attribute or a name at its head begins with."""
    line = re.sub(r"\A(?=[#+=-])", r"\\", escaped(sentence).strip())
    return re.sub(r"\A(\d+)(?=[.)])", r"\1\\", line)


def lineage_tables(result: DiscoverResult) -> Iterator[Table]:
    """Each tested attribute with its ancestors, oldest first, then its numbers on held-out prompts."""
    header = ("step", "attribute", "reward", "judge prefers it", "rewrites")
    for title, tested in numbered(result) if result.generations else ():
        names = [*result.lineage.get(tested.candidate, ()), tested.candidate]
        rows = [row for name in names for row in _ancestor(name, names, result)]
        rows += [(step, "", *_pooled(pooled)) for step, pooled in held_out(tested, result).items()]
        yield Table(title, header, tuple(rows))


def _ancestor(name: str, names: list[str], result: DiscoverResult) -> Iterator[Row]:
    """A candidate in each generation until it had the descendant that counts here; at least in the first."""
    end = until(name, names, result)
    for generation in (each for each in result.generations if each.index < end):
        for row in generation.standings:
            if row.candidate == name:
                judge = "not asked" if row.judge is None else percent(row.judge)
                numbers = cell(row.reward, reward), judge, str(row.n)
                yield f"generation {generation.index + 1}", attribute_of(name, result), *numbers


@_tabled("Whether two rewriters say the same of the same responses", "attribute", "rewriters", "r", "rank r",
         "largest distance of the distributions (KS)", "n")  # fmt: skip
def agreement_table(result: DiscoverResult) -> Iterator[Row]:
    for name, tested in numbered(result):
        quality = result.pairs.get(tested.candidate)
        for pair in quality.agreement if quality else ():
            far = pair.distance
            distance = "" if far is None else f"{far.statistic:.2f} (p {p_value(far.p_value)})"
            r = cell(pair.pearson, decimals, None), cell(pair.spearman, decimals, "")
            n = f"{pair.n_responses} ({pair.n_prompts} prompts)"
            yield name, f"{pair.first} / {pair.second}", *r, distance, n


@_tabled("Left out, by step and reason", "step", "left out because", "n", "of")
def excluded_table(result: DiscoverResult) -> Iterator[Row]:
    for step, reasons, seen in _left_out(result):
        for reason, n in reasons.items():
            if n:
                yield step, reason, str(n), "" if seen is None else str(seen)


def _left_out(result: DiscoverResult) -> Iterator[LeftOut]:
    yield from _left_out_of_material(result.material)
    for generation in result.generations:
        step, proposed = f"generation {generation.index + 1}", generation.proposed
        yield f"{step}: proposals", proposed.reasons, proposed.seen
        yield f"{step}: candidates", {"means the same as another": generation.n_merged}, None
        missing = sum((Counter(row.failed) for row in generation.standings), Counter[str]())
        yield f"{step}: rewrites", missing, sum(row.n for row in generation.standings) + missing.total()
    yield "search: groups by meaning", result.grouping, None
    validation = result.validation
    steps: tuple[tuple[str, Sequence[HeldOut]], ...] = (("validation", result.validated), ("test", result.tested))
    for step, entered in steps:
        for each in summed_failures(entered):
            yield f"{step}: rewrites by {each.rewriter}", each.failed, each.asked
    for row in result.validated:
        name = f"validation: {clipped(attribute_of(row.candidate, result), _BRIEF)}"
        yield from _left_out_of_numbers(name, row, validation.already if validation else {})
    for name, tested in numbered(result, _BRIEF):
        yield from _left_out_of_numbers(f"test: {name}", tested, result.already)
    if validation:
        yield from _left_out_of_verdicts("validation", validation.cut_for_judge, validation.verdicts)
    yield from _left_out_of_verdicts("test", result.cut_for_judge, result.verdicts)
    for name, tested in numbered(result, _BRIEF):
        if quality := result.pairs.get(tested.candidate):
            yield from _left_out_of_pairs(f"pairs: {name}", quality)


def _left_out_of_material(material: MaterialCounts) -> Iterator[LeftOut]:
    made, repeated = material.made, material.repeated
    if made.rows:
        yield "prompts: rows", made.rows.reasons, made.rows.seen
    if made.not_drawn:
        n_drawn = sum(material.prompts.values()) + repeated.prompts + material.unrated + material.unanswered
        yield "prompts", {"not drawn (discover.max_prompts)": made.not_drawn}, n_drawn + made.not_drawn
    for what, level in (("scenarios", made.scenarios), ("prompts", made.written)):
        if level:
            yield f"writing {what}: answers", level.calls.reasons, level.calls.seen
            yield f"writing {what}", level.items.reasons, level.items.seen
            short = {"asked for and not written in the end": level.requested - level.kept}
            yield f"writing {what}", short, level.requested
    for source, exclusions in material.sampled.items():
        yield f"responses of {source}", exclusions.reasons, exclusions.seen
    yield "prompts", {"no response": material.unanswered}, None
    yield "rewards", material.rewards.reasons, material.rewards.seen
    yield "prompts", {"no response with a reward": material.unrated}, None
    yield "prompts", {"says the same as another prompt": repeated.prompts}, None
    yield "responses", {"to a prompt that says the same as another": repeated.responses}, None


def _left_out_of_numbers(step: str, entered: HeldOut, already: Mapping[str, Mapping[str, int]]) -> Iterator[LeftOut]:
    """Rewrites that a candidate's pooled numbers lack, on validation or test prompts."""
    for rewriter, n in already.get(entered.candidate, {}).items():
        yield step, {f"is so already ({rewriter}); not rewritten": n}, None
    if pooled := entered.pooled:
        measured = pooled.reward.n + pooled.n_left_out
        yield step, {"no verdict of the judge; counts for the reward": pooled.n_unjudged}, measured
        yield step, {"outside the fences; counts for the judge": pooled.n_left_out}, measured


def _left_out_of_verdicts(step: str, n_cut: int, verdicts: Verdicts | None) -> Iterator[LeftOut]:
    """Comparisons without a verdict, and why single answers hold none: each comparison is asked for in both orders."""
    yield f"{step}: comparisons by the judge", {"a side was cut for the judge": n_cut}, None
    if verdicts:
        lost = {"readable in neither order": verdicts.unread, "readable in one order alone": verdicts.half_read}
        yield f"{step}: comparisons by the judge", lost, verdicts.asked
        yield f"{step}: answers of the judge", verdicts.reasons, 2 * verdicts.asked


def _left_out_of_pairs(step: str, quality: PairQuality) -> Iterator[LeftOut]:
    if fidelity := quality.fidelity:
        yield step, {"label of the side with it not read": fidelity.n_unparsed_with}, fidelity.n
        yield step, {"label of the side without it not read": fidelity.n_unparsed_without}, fidelity.n
    if grades := quality.grades:
        yield f"{step}, grades", grades.exclusions.reasons, grades.exclusions.seen
    if guesses := quality.guesses:
        yield f"{step}, guesses", guesses.guessing.reasons, guesses.guessing.seen
        yield f"{step}, likeness of guesses", guesses.rating.reasons, guesses.rating.seen


@_tabled("Work and time of the steps that were done, as last made; answers and scores of earlier runs are not asked for again",
         "step", "rewrites measured", "of these judged", "time")  # fmt: skip
def effort_table(result: DiscoverResult) -> Iterator[Row]:
    standings = [row for generation in result.generations for row in generation.standings]
    work = {
        "material": ("material", "", ""),
        "search": ("search", str(sum(row.n for row in standings)), str(sum(row.n_judged for row in standings))),
        "validate": ("validation", *_work(result.validated)),
        "confirm": ("test", *_work(result.tested)),
    }
    for stage, cells in work.items():
        if stage in result.stages:
            yield *cells, duration(result.stages[stage].seconds)


def _work(entered: Sequence[HeldOut]) -> tuple[str, str]:
    each = [rewriter for row in entered for rewriter in row.rewriters]
    judged = sum(rewriter.strength.judge.n for rewriter in each if rewriter.strength)
    # If a rewriter gave too little for numbers, its verdicts are not in the file.
    more = " or more" if any(rewriter.n and not rewriter.strength for rewriter in each) else ""
    return str(sum(rewriter.n for rewriter in each)), f"{judged}{more}"
