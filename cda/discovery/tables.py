"""The tables of a discovery, and the whole of it for a terminal and as Markdown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from cda.discovery.sentences import (
    attribute_of,
    correction,
    discovery_sentences,
    held_out,
    model_name,
    summed_failures,
    until,
)
from cda.report.numbers import (
    MINUS,
    cell,
    clipped,
    count,
    decimals,
    duration,
    inert,
    p_value,
    percent,
    reward,
    share,
    signed,
)
from cda.report.scoring import llm_table
from cda.report.tables import Row, Table, escaped, fenced_block, markdown_table, plain_table
from cda.results.base import Estimate, Missing
from cda.results.discover import DiscoverResult, Fate, MaterialCounts, StrengthCurve, TestedAttribute
from cda.results.evidence import HeldOut, PairQuality, Strength, Verdicts

Rows = Callable[[DiscoverResult], Iterator[Row]]
LeftOut = tuple[str, Mapping[str, int], int | None]
"""Step, reasons with their counts, and of how many."""
_TERMINAL_WIDTH, _SHORT, _BRIEF = 60, 90, 40
_LABELLERS = {"measure": "the attribute's measure", "llm": "the LLM"}
_NUMBERS = ("reward", "judge prefers it", "n")
_YES = {True: "yes", False: "no"}
_FATES: tuple[Fate, ...] = ("too few rewrites", "reward", "judge", "front")


def _tabled(caption: str, *header: str) -> Callable[[Rows], Callable[[DiscoverResult], Table]]:
    """A decorator that turns the rows of a discovery into a table of them."""
    return lambda rows: lambda result: Table(caption, header, tuple(rows(result)))


def numbered(result: DiscoverResult, most: int = _SHORT) -> list[tuple[str, TestedAttribute]]:
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
            numbers = f"{row.base_mean:.2f}", f"{row.perturbed_mean:.2f}", cell(row.difference, signed)
            yield attribute, row.name, *numbers, cell(row.standardised, signed), share(pairs)


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


def discover_text(result: DiscoverResult) -> str:
    table = tested_table(result, _TERMINAL_WIDTH)
    lines = "\n".join(inert(line) for line in discovery_sentences(result))
    return f"{plain_table(table)}\n\n{lines}" if table.rows else lines


def discover_markdown(result: DiscoverResult) -> str:
    title = "Attributes measured" if result.given else "Biases discovered"
    where = "" if result.topic is None else f", on the topic: {escaped(clipped(result.topic, _SHORT))}"
    lines = [f"# {title} in {escaped(model_name(result.model))}{where}", ""]
    lines += [line for sentence in discovery_sentences(result) for line in (_paragraph(sentence), "")]
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
    lines += [line for table in tables if table is not None and table.rows for line in markdown_table(table)]
    for tested in result.tested:
        if tested.confirmed or result.given:
            lines += _example_lines(tested)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


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
