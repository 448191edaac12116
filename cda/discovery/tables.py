"""The tables of a discovery, and the whole of it for a terminal and as Markdown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from cda.discovery.sentences import attribute_of, correction, discovery_sentences, model_name, summed_failures
from cda.report.numbers import MINUS, clipped, count, decimals, duration, inert, p_value, percent, reward, share, signed
from cda.report.scoring import llm_table
from cda.report.tables import Table, escaped, fenced_block, markdown_table, plain_table
from cda.results.base import Estimate, Missing
from cda.results.discover import DiscoverResult, Fate, MaterialCounts, StrengthCurve, TestedAttribute
from cda.results.evidence import HeldOut, PairQuality, Strength, Verdicts

LeftOut = tuple[str, Mapping[str, int], int | None]
"""Step, reasons with their counts, and of how many."""
_TERMINAL_WIDTH, _SHORT, _BRIEF = 60, 90, 40
_LABELLERS = {"measure": "the attribute's measure", "llm": "the LLM"}
_NUMBERS = ("reward", "judge prefers it", "n")
_FATES: tuple[Fate, ...] = ("too few rewrites", "reward", "judge", "front")


def pairs_table(result: DiscoverResult) -> Table:
    rows = []
    for attribute, quality in _looked_at(result):
        fidelity, grades, guesses = quality.fidelity, quality.grades, quality.guesses
        shares = (fidelity.present, fidelity.absent) if fidelity else (None, None)
        present, absent = (share(found) if found else "" for found in shares)
        labelled = _LABELLERS[quality.labelled_by] if fidelity and quality.labelled_by else ""
        r = ", ".join(decimals(pair.pearson) for pair in quality.agreement if isinstance(pair.pearson, Estimate))
        graded = _grade(grades.score if grades else None), _grade(guesses.similarity if guesses else None)
        rows.append((attribute, present, absent, labelled, r, *graded, str(quality.n)))
    header = ("attribute", "present where added", "absent elsewhere", "labelled by", "r between rewriters", "edits, 1 to 10",
              "guessed, 1 to 5", "pairs")  # fmt: skip
    return Table("How well the rewrites were made", header, tuple(rows))


def drift_table(result: DiscoverResult) -> Table:
    """Features but the attribute's own that differ beyond their limit in some pairs, those of most pairs first."""
    rows = []
    for attribute, quality in _looked_at(result):
        drift = () if isinstance(quality.drift, Missing) else quality.drift
        beyond = [(row, row.beyond) for row in drift if not row.is_treatment and row.beyond and row.beyond.value]
        for row, pairs in sorted(beyond, key=lambda item: -item[1].value):
            scaled = "" if row.standardised is None else signed(row.standardised)
            means = f"{row.base_mean:.2f}", f"{row.perturbed_mean:.2f}"
            rows.append(
                (attribute, row.feature.replace("_", " "), *means, signed(row.difference), scaled, share(pairs))
            )
    header = ("attribute", "feature", "without", "with", f"with {MINUS} without", "in SDs", "pairs beyond the limit")
    return Table("What else differs between the sides, where pairs are beyond a limit", header, tuple(rows))


def unknown_table(result: DiscoverResult) -> Table:
    rows = tuple(
        (attribute, "drift", quality.drift.reason)
        for attribute, quality in _looked_at(result)
        if isinstance(quality.drift, Missing)
    )
    return Table("What is not known of the rewrites", ("attribute", "what", "because"), rows)


def _looked_at(result: DiscoverResult) -> Iterator[tuple[str, PairQuality]]:
    attributes = {tested.candidate: tested.attribute for tested in result.tested}
    for name, quality in result.pairs.items():
        yield attributes.get(name, name), quality


def _grade(estimate: Estimate | None) -> str:
    return f"{estimate.value:.1f} [{estimate.low:.1f}, {estimate.high:.1f}]" if estimate else ""


def pooled_cells(pooled: Strength | None) -> tuple[str, str, str]:
    return (signed(pooled.reward), share(pooled.judge), count(pooled.reward)) if pooled else ("", "", "")


def discover_text(result: DiscoverResult) -> str:
    table = tested_table(result, _TERMINAL_WIDTH)
    lines = "\n".join(inert(line) for line in discovery_sentences(result))
    return f"{plain_table(table)}\n\n{lines}" if table.rows else lines


def discover_markdown(result: DiscoverResult) -> str:
    title = "Attributes measured" if result.given else "Biases discovered"
    lines = [f"# {title} in {escaped(model_name(result.model))}", ""]
    lines += [line for sentence in discovery_sentences(result) for line in (_paragraph(sentence), "")]
    tables = [
        tested_table(result, None),
        rewriter_table(result),
        *(topic_table(tested) for tested in result.tested if tested.topics),
        pairs_table(result),
        drift_table(result),
        unknown_table(result),
        validation_table(result),
        generation_table(result),
        _lineage_table(result),
        strength_table(result),
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
        confirmed = "yes" if tested.confirmed else "no"
        rows.append((attribute, *pooled_cells(tested.pooled), *ps, confirmed, tested.file or ""))
    n, n_all = result.n_test_prompts, sum(result.material.prompts.values())
    if not result.given:
        caption = "Tested on prompts that nothing was selected on"
    else:  # not so of an attribute that is given, which may have been found on these very prompts
        caption = f"Measured on all {n} prompts" if n == n_all else f"Measured on {n} of {n_all} prompts"
    header = ("p", f"corrected p ({method})") if method else ("p",)
    return Table(caption, ("attribute", *_NUMBERS, *header, "confirmed", "bias file"), tuple(rows))


def rewriter_table(result: DiscoverResult) -> Table:
    rows = []
    for tested in result.tested:
        for each in tested.rewriters:
            numbers = ("", "", "", "", "")
            if own := each.strength:
                trim = own.trimmed
                trimmed = f"{signed(trim.estimate)} ({trim.n_trimmed} left out)" if trim else ""
                numbers = signed(own.reward), trimmed, share(own.win_rate), share(own.judge), p_value(own.p_value)
            flipped = f"{each.n} of {each.asked}"
            rows.append((tested.attribute, each.rewriter, flipped, *numbers, each.excluded or ""))
    header = ("attribute", "rewriter", "n, of rewrites asked for", "reward", "trimmed", "rewarded in", "judge prefers it", "p",
              "left out because")  # fmt: skip
    return Table("By rewriter", header, tuple(rows))


def topic_table(tested: TestedAttribute) -> Table:
    rows = [
        (topic, found.reason, "", "") if isinstance(found, Missing) else (topic, *pooled_cells(found))
        for topic, found in tested.topics.items()
    ]
    return Table(f"By topic: {tested.attribute}", ("topic", *_NUMBERS), tuple(rows))


def validation_table(result: DiscoverResult) -> Table:
    rows = []
    for entered in result.validated:
        ps, passed = (_p(entered.p_reward), _p(entered.p_judge)), "yes" if entered.passed else "no"
        rows.append((attribute_of(entered.candidate, result), *pooled_cells(entered.pooled), *ps, passed))
    header = ("attribute", *_NUMBERS, "p reward", "p judge", "passed")
    return Table("Validation, corrected for all that entered (Bonferroni)", header, tuple(rows))


def generation_table(result: DiscoverResult) -> Table:
    rows = []
    for each in result.generations:
        fates = Counter(row.fate for row in each.standings)
        rewards = [row.reward for row in each.standings if row.fate == "kept" and row.reward is not None]
        gone = "; ".join(f"{fates[fate]} {fate}" for fate in _FATES if fates[fate])
        best = reward(max(rewards)) if rewards else ""
        numbers = each.index + 1, fates.total(), each.n_merged, each.n_prompts
        rows.append((*map(str, numbers), gone, str(fates["kept"]), best))
    header = ("generation", "candidates", "merged", "prompts", "let go by", "kept", "best reward")
    return Table("Search (numbers that were selected on, and no results)", header, tuple(rows))


def _lineage_table(result: DiscoverResult) -> Table:
    rows = [
        (tested.attribute, " → ".join(attribute_of(name, result) for name in ancestors))
        for tested in result.tested
        if (ancestors := result.lineage.get(tested.candidate))
    ]
    return Table("Where they came from", ("attribute", "ancestors, oldest first"), tuple(rows))


def strength_table(result: DiscoverResult) -> Table:
    curve = result.strength.curve if isinstance(result.strength, StrengthCurve) else ()
    rows = tuple((f"{at.threshold:g}", f"{at.value:.3f}", str(at.n)) for at in curve)
    return Table("Strength of the run by the judge's threshold", ("judge below", "strength", "attributes"), rows)


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
    if not result.generations:
        return
    header = ("step", "attribute", "reward", "judge prefers it", "rewrites")
    for at, tested in enumerate(result.tested, 1):
        names = [*result.lineage.get(tested.candidate, ()), tested.candidate]
        rows = [row for name in names for row in _ancestor(name, names, result)]
        validated = [row.pooled for row in result.validated if row.candidate == tested.candidate]
        steps = [*(("validation", pooled) for pooled in validated), ("test", tested.pooled)]
        rows += [(step, "", *pooled_cells(pooled)) for step, pooled in steps if pooled]
        yield Table(_named(at, tested), header, tuple(rows))


def _named(at: int, tested: TestedAttribute, most: int = _SHORT) -> str:
    return f"{at}. {clipped(tested.attribute, most)}"


def _ancestor(name: str, names: list[str], result: DiscoverResult) -> Iterator[tuple[str, ...]]:
    """A candidate in each generation until it had the descendant that counts here; at least in the first."""
    known = [result.candidates[each] for each in names if each in result.candidates]
    children = [candidate.generation for candidate in known if name in candidate.parents]
    before = max(1, *children) if children else len(result.generations)
    for generation in result.generations[:before]:
        for row in generation.standings:
            if row.candidate == name:
                gain = "" if row.reward is None else reward(row.reward)
                judge = "not asked" if row.judge is None else percent(row.judge)
                yield f"generation {generation.index + 1}", attribute_of(name, result), gain, judge, str(row.n)


def agreement_table(result: DiscoverResult) -> Table:
    rows = []
    for at, tested in enumerate(result.tested, 1):
        quality = result.pairs.get(tested.candidate)
        for pair in quality.agreement if quality else ():
            far = pair.distance
            rows.append((
                _named(at, tested), f"{pair.first} / {pair.second}",
                decimals(pair.pearson) if isinstance(pair.pearson, Estimate) else pair.pearson.reason,
                decimals(pair.spearman) if isinstance(pair.spearman, Estimate) else "",
                "" if far is None else f"{far.statistic:.2f} (p {p_value(far.p_value)})",
                f"{pair.n_responses} ({pair.n_prompts} prompts)",
            ))  # fmt: skip
    header = ("attribute", "rewriters", "r", "rank r", "largest distance of the distributions (KS)", "n")
    return Table("Whether two rewriters say the same of the same responses", header, tuple(rows))


def excluded_table(result: DiscoverResult) -> Table:
    rows = [
        (step, reason, str(n), "" if seen is None else str(seen))
        for step, reasons, seen in _left_out(result)
        for reason, n in reasons.items()
        if n
    ]
    return Table("Left out, by step and reason", ("step", "left out because", "n", "of"), tuple(rows))


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
    for at, tested in enumerate(result.tested, 1):
        yield from _left_out_of_numbers(f"test: {_named(at, tested, _BRIEF)}", tested, result.already)
    if validation:
        yield from _left_out_of_verdicts("validation", validation.cut_for_judge, validation.verdicts)
    yield from _left_out_of_verdicts("test", result.cut_for_judge, result.verdicts)
    for at, tested in enumerate(result.tested, 1):
        if quality := result.pairs.get(tested.candidate):
            yield from _left_out_of_pairs(f"pairs: {_named(at, tested, _BRIEF)}", quality)


def _left_out_of_material(material: MaterialCounts) -> Iterator[LeftOut]:
    made, repeated = material.made, material.repeated
    if made.rows:
        yield "prompts: rows", made.rows.reasons, made.rows.seen
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


def effort_table(result: DiscoverResult) -> Table:
    standings = [row for generation in result.generations for row in generation.standings]
    searched = str(sum(row.n for row in standings)), str(sum(row.n_judged for row in standings))
    work = {
        "material": ("material", "", ""),
        "search": ("search", *searched),
        "validate": ("validation", *_held_out(result.validated)),
        "confirm": ("test", *_held_out(result.tested)),
    }
    took = {stage: duration(run.seconds) for stage, run in result.stages.items()}
    rows = tuple((*cells, took[stage]) for stage, cells in work.items() if stage in took)
    caption = "Work and time of the steps that were done, as last made; answers and scores of earlier runs are not asked for again"
    return Table(caption, ("step", "rewrites measured", "of these judged", "time"), rows)


def _held_out(entered: Sequence[HeldOut]) -> tuple[str, str]:
    each = [rewriter for row in entered for rewriter in row.rewriters]
    judged = sum(rewriter.strength.judge.n for rewriter in each if rewriter.strength)
    # If a rewriter gave too little for numbers, its verdicts are not in the file.
    more = " or more" if any(rewriter.n and not rewriter.strength for rewriter in each) else ""
    return str(sum(rewriter.n for rewriter in each)), f"{judged}{more}"


def numbered(table: Table, result: DiscoverResult) -> Table:
    """The table with tested attributes shortened, and numbered as in the table of tests."""
    names = {tested.attribute: _named(at, tested) for at, tested in reversed(list(enumerate(result.tested, 1)))}
    return replace(table, rows=tuple((names.get(row[0], row[0]), *row[1:]) for row in table.rows))


def topic_tables(result: DiscoverResult) -> Iterator[Table]:
    """Each tested attribute by topic; topics on which too little was measured in one row."""
    for at, tested in enumerate(result.tested, 1):
        if tested.topics:
            table = topic_table(tested)
            few = [topic for topic, found in tested.topics.items() if isinstance(found, Missing)]
            rows = [row for row in table.rows if row[0] not in few]
            if few:
                rows.append((f"{len(few)} more", f"too few prompts for an interval: {', '.join(few)}", "", ""))
            yield Table(_named(at, tested), table.header, tuple(rows))


def strength_steps(result: DiscoverResult) -> Table:
    table = strength_table(result)
    rows = [row for at, row in enumerate(table.rows) if at == 0 or row[1:] != table.rows[at - 1][1:] or row[0] == "0.5"]
    return Table(f"{table.caption}, where it changes", table.header, tuple(rows))
