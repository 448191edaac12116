"""Tables and facts that only the page of a discovery has: descent, agreement, exclusions, effort, provenance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from cda.discovery.sentences import attribute_of, correction, model_name, rewriters_named, summed_failures
from cda.discovery.tables import pooled_cells, strength_table, topic_table
from cda.report.numbers import clipped, decimals, duration, p_value, percent, reward
from cda.report.page import Entry
from cda.report.tables import Table
from cda.results.base import Estimate, Missing
from cda.results.discover import DiscoverResult, MaterialCounts, StrengthCurve, TestedAttribute
from cda.results.evidence import HeldOut, PairQuality, Verdicts

Row = tuple[str, ...]
LeftOut = tuple[str, Mapping[str, int], int | None]
"""Step, reasons with their counts, and of how many."""
_SHORT, _BRIEF = 90, 40


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


def _ancestor(name: str, names: list[str], result: DiscoverResult) -> Iterator[Row]:
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
    """Correlations and distance of every two rewriters, attribute by attribute."""
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
    """Step, reason, number left out, and the total if known."""
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
    """From the rows, scenarios and prompts it was made of to the rewards."""
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
    """Questions about the rewrites without a readable answer."""
    if fidelity := quality.fidelity:
        yield step, {"label of the side with it not read": fidelity.n_unparsed_with}, fidelity.n
        yield step, {"label of the side without it not read": fidelity.n_unparsed_without}, fidelity.n
    if grades := quality.grades:
        yield f"{step}, grades", grades.exclusions.reasons, grades.exclusions.seen
    if guesses := quality.guesses:
        yield f"{step}, guesses", guesses.guessing.reasons, guesses.guessing.seen
        yield f"{step}, likeness of guesses", guesses.rating.reasons, guesses.rating.seen


def effort_table(result: DiscoverResult) -> Table:
    """Rewrites, verdicts and time of each step."""
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


def facts(result: DiscoverResult) -> Iterator[tuple[str, str]]:
    """Models, settings and versions."""
    settings, material, search = result.strictness, result.material, result.search
    yield "model", model_name(result.model)
    yield "held against", model_name(result.judge)
    yield "proposals", "given by the user" if result.given else result.by
    yield "rewriters", rewriters_named(result)
    yield "responses", f"{material.responses} ({', '.join(material.sampled)})"
    yield "prompts", ", ".join(f"{n} {part}" for part, n in material.prompts.items())
    if not result.given:
        yield (
            "search",
            f"candidates {', '.join(map(str, search.populations))}; on {', '.join(map(str, search.prompts))} prompts",
        )
        yield "directions", ", ".join(search.directions)
    yield "validation level", f"{settings.validation_alpha:g}"
    yield "test level", f"{settings.test_alpha:g}"
    yield "correction of the test", settings.correct
    yield "rewriters that have to show it", str(settings.r)
    yield "share of rewrites a rewriter may fail", f"{settings.max_failed:g}"
    yield "margins outside the fences left out", "yes" if settings.trim else "no"
    yield "seed", str(result.seed)
    yield "versions", ", ".join(f"{name} {version}" for name, version in result.versions.items())


def terms(result: DiscoverResult) -> tuple[Entry, ...]:
    """The meaning of each number."""
    r, alpha, method = result.strictness.r, f"{result.strictness.test_alpha:g}", correction(result)
    decides = Entry("confirmed", f"p < {alpha}", "p is not corrected for other attributes.")
    if method:
        decides = Entry(
            f"corrected p ({method})", _CORRECTED[method], f"It decides: below {alpha} an attribute is confirmed."
        )
    entries = [
        Entry("margin", "reward(side with the attribute) − reward(side without)", "For one response and its rewrite, in reward units of the model."),
        Entry("reward", "mean margin", "Interval and test by Student's t with prompts as clusters."),
        Entry("judge prefers it", "mean of 1: the side with it is better, ½: neither, 0: worse",
              "Wilson's interval on the effective number of verdicts. Below 50% the judge dislikes the attribute."),
        Entry("p by rewriter", "max(p of reward ≤ 0, p of judge ≥ 50%)", "Both have to hold, so the larger one counts (intersection–union)."),
        Entry("p", f"partial conjunction: fewer than {r} of the k rewriters show it",
              f"(k − {r - 1}) × the p of rank {r} among the rewriters, the smallest first."),
        decides,
        Entry("trimmed", "mean of the margins inside Tukey's fences", "Shown beside the mean; a sign that it turns is said."),
        Entry("r, rank r", "Pearson and Spearman over prompts", "Of the margins of two rewriters on the same responses; intervals from prompts drawn with replacement."),
    ]  # fmt: skip
    if isinstance(result.strength, StrengthCurve):
        entries.append(Entry(
            "strength", "Σ R(Aᵢ) · max(0, 1 − w · max over stronger Aⱼ of cos(Aⱼ, Aᵢ))",
            f"Diversity-adjusted bias strength: over finalists with R above 0 and a judge below the threshold, w = {result.strength.penalty:g}.",
        ))  # fmt: skip
    return tuple(entries)


_CORRECTED = {
    "Bonferroni": "p × the number of attributes that were tested, at most 1",
    "Holm": "p adjusted step by step for all attributes that were tested, at most 1",
}


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
    """The strength at the thresholds at which it changes, and at 0.5."""
    table = strength_table(result)
    rows = [row for at, row in enumerate(table.rows) if at == 0 or row[1:] != table.rows[at - 1][1:] or row[0] == "0.5"]
    return Table(f"{table.caption}, where it changes", table.header, tuple(rows))
