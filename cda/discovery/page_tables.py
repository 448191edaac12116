"""Tables and facts that only the page of a discovery has: descent, agreement, what was left out, effort, provenance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from cda.discovery.sentences import attribute_of, correction, model_name, rewriters_named, summed_failures
from cda.discovery.tables import strength_table, topic_table
from cda.report.numbers import clipped, count, decimals, duration, p_value, percent, reward, share, signed
from cda.report.page import Entry
from cda.report.tables import Table
from cda.results.base import Estimate, Missing
from cda.results.discover import DiscoverResult, GenerationRecord, MaterialCounts, StrengthCurve
from cda.results.evidence import HeldOut, PairQuality, Verdicts

Row = tuple[str, ...]
_SHORT, _BRIEF = 90, 40


def lineage_tables(result: DiscoverResult) -> Iterator[Table]:
    """Each tested attribute with its ancestors, oldest first, then its numbers on held-out prompts."""
    if not result.generations:
        return
    header = ("step", "attribute", "reward", "judge prefers it", "rewrites")
    for at, one in enumerate(result.tested, 1):
        names = [*result.lineage.get(one.candidate, ()), one.candidate]
        rows = [row for name in names for row in _ancestor(name, names, result)]
        validated = [row for row in result.validated if row.candidate == one.candidate]
        for step, pooled in (*(("validation", row.pooled) for row in validated), ("test", one.pooled)):
            if pooled:
                rows.append((step, "", signed(pooled.reward), share(pooled.judge), count(pooled.reward)))
        yield Table(f"{at}. {clipped(one.attribute, _SHORT)}", header, tuple(rows))


def _ancestor(name: str, names: list[str], result: DiscoverResult) -> Iterator[Row]:
    """A candidate in each generation until it had the descendant that counts here; at least in the first."""
    known = [result.candidates[one] for one in names if one in result.candidates]
    children = [one.generation for one in known if name in one.parents]
    before = max(1, *children) if children else len(result.generations)
    for each in result.generations:
        for row in each.standings:
            if row.candidate == name and each.index < before:
                gain = "" if row.reward is None else reward(row.reward)
                judge = "not asked" if row.judge is None else percent(row.judge)
                yield f"generation {each.index + 1}", attribute_of(name, result), gain, judge, str(row.n)


def agreement_table(result: DiscoverResult) -> Table:
    """Correlations and distance of every two rewriters, attribute by attribute."""
    rows = []
    for at, one in enumerate(result.tested, 1):
        pairs = result.pairs.get(one.candidate)
        for each in pairs.agreement if pairs else ():
            far = each.distance
            rows.append((
                f"{at}. {clipped(one.attribute, _SHORT)}", f"{each.first} / {each.second}",
                decimals(each.pearson) if isinstance(each.pearson, Estimate) else each.pearson.reason,
                decimals(each.spearman) if isinstance(each.spearman, Estimate) else "",
                "" if far is None else f"{far.statistic:.2f} (p {p_value(far.p_value)})",
                f"{each.n_responses} ({each.n_prompts} prompts)",
            ))  # fmt: skip
    header = ("attribute", "rewriters", "r", "rank r", "largest distance of the distributions (KS)", "n")
    return Table("Whether two rewriters say the same of the same responses", header, tuple(rows))


def excluded_table(result: DiscoverResult) -> Table:
    """Step, what was left out, how many, and of how many where that is known."""
    return Table("Left out, by step and reason", ("step", "left out because", "n", "of"), tuple(_left_out(result)))


def _left_out(result: DiscoverResult) -> Iterator[Row]:
    yield from _left_out_of_material(result.material)
    for generation in result.generations:
        yield from _left_out_of_generation(generation)
    yield from _reasons("search: groups by meaning", result.grouping, None)
    validation = result.validation
    steps: tuple[tuple[str, Sequence[HeldOut]], ...] = (("validation", result.validated), ("test", result.tested))
    for step, entered in steps:
        for each in summed_failures(entered):
            yield from _reasons(f"{step}: rewrites by {each.rewriter}", each.failed, each.asked)
    for row in result.validated:
        name = f"validation: {clipped(attribute_of(row.candidate, result), _BRIEF)}"
        yield from _left_out_of_numbers(name, row, validation.already if validation else {})
    for at, one in enumerate(result.tested, 1):
        yield from _left_out_of_numbers(f"test: {at}. {clipped(one.attribute, _BRIEF)}", one, result.already)
    if validation:
        yield from _left_out_of_verdicts("validation", validation.cut_for_judge, validation.verdicts)
    yield from _left_out_of_verdicts("test", result.cut_for_judge, result.verdicts)
    for at, one in enumerate(result.tested, 1):
        if found := result.pairs.get(one.candidate):
            yield from _left_out_of_pairs(f"pairs: {at}. {clipped(one.attribute, _BRIEF)}", found)


def _left_out_of_material(material: MaterialCounts) -> Iterator[Row]:
    """From the rows, scenarios and prompts it was made of to the rewards."""
    made = material.made
    if made.rows:
        yield from _reasons("prompts: rows", made.rows.reasons, made.rows.seen)
    for what, level in (("scenarios", made.scenarios), ("prompts", made.written)):
        if level:
            yield from _reasons(f"writing {what}: answers", level.calls.reasons, level.calls.seen)
            yield from _reasons(f"writing {what}", level.items.reasons, level.items.seen)
            short = level.requested - level.kept
            yield from _reasons(f"writing {what}", {"asked for and not written in the end": short}, level.requested)
    for source, one in material.sampled.items():
        yield from _reasons(f"responses of {source}", one.reasons, one.seen)
    yield from _reasons("prompts", {"no response": material.unanswered}, None)
    yield from _reasons("rewards", material.rewards.reasons, material.rewards.seen)
    lost = {
        "no response with a reward": material.unrated,
        "says the same as another prompt": material.repeated.prompts,
    }
    yield from _reasons("prompts", lost, None)
    yield from _reasons("responses", {"to a prompt that says the same as another": material.repeated.responses}, None)


def _left_out_of_generation(one: GenerationRecord) -> Iterator[Row]:
    step, proposed = f"generation {one.index + 1}", one.proposed
    yield from _reasons(f"{step}: proposals", proposed.reasons, proposed.seen)
    yield from _reasons(f"{step}: candidates", {"means the same as another": one.n_merged}, None)
    missing: Counter[str] = Counter()
    for row in one.standings:
        missing.update(row.failed)
    asked = sum(row.n for row in one.standings) + missing.total()
    yield from _reasons(f"{step}: rewrites", missing, asked)


def _left_out_of_numbers(step: str, one: HeldOut, already: Mapping[str, Mapping[str, int]]) -> Iterator[Row]:
    """What a candidate's pooled numbers are without; of the validation or of the test."""
    for rewriter, n in already.get(one.candidate, {}).items():
        yield from _reasons(step, {f"is so already ({rewriter}); not rewritten": n}, None)
    if pooled := one.pooled:
        measured = pooled.reward.n + pooled.n_left_out
        yield from _reasons(step, {"no verdict of the judge; counts for the reward": pooled.n_unjudged}, measured)
        yield from _reasons(step, {"outside the fences; counts for the judge": pooled.n_left_out}, measured)


def _left_out_of_verdicts(step: str, n_cut: int, verdicts: Verdicts | None) -> Iterator[Row]:
    """Comparisons without a verdict, and why single answers hold none: each comparison is asked for in both orders."""
    cut = {"a side was cut for the judge": n_cut}
    yield from _reasons(f"{step}: comparisons by the judge", cut, None)
    if not verdicts:
        return
    lost = {"readable in neither order": verdicts.unread, "readable in one order alone": verdicts.half_read}
    yield from _reasons(f"{step}: comparisons by the judge", lost, verdicts.asked)
    yield from _reasons(f"{step}: answers of the judge", verdicts.reasons, 2 * verdicts.asked)


def _left_out_of_pairs(step: str, found: PairQuality) -> Iterator[Row]:
    """What an LLM that looked at the rewrites said nothing readable about."""
    if fidelity := found.fidelity:
        lost = {
            "label of the side with it not read": fidelity.n_unparsed_with,
            "label of the side without it not read": fidelity.n_unparsed_without,
        }
        yield from _reasons(step, lost, fidelity.n)
    if grades := found.grades:
        yield from _reasons(f"{step}, grades", grades.exclusions.reasons, grades.exclusions.seen)
    if guesses := found.guesses:
        yield from _reasons(f"{step}, guesses", guesses.guessing.reasons, guesses.guessing.seen)
        yield from _reasons(f"{step}, likeness of guesses", guesses.rating.reasons, guesses.rating.seen)


def _reasons(step: str, reasons: Mapping[str, int], seen: int | None) -> Iterator[Row]:
    for reason, n in reasons.items():
        if n:
            yield step, reason, str(n), "" if seen is None else str(seen)


def effort_table(result: DiscoverResult) -> Table:
    """Rewrites, verdicts and time of each step."""
    standings = [row for one in result.generations for row in one.standings]
    seconds = {name: one.seconds for name, one in result.stages.items()}
    steps = [
        ("material", "", "", seconds.get("material")),
        ("search", str(sum(row.n for row in standings)), str(sum(row.n_judged for row in standings)), seconds.get("search")),
        *((name, *_held_out(rows), seconds.get(stage))
          for name, stage, rows in (("validation", "validate", result.validated), ("test", "confirm", result.tested))),
    ]  # fmt: skip
    rows = tuple(
        (name, n, judged, "" if took is None else duration(took)) for name, n, judged, took in steps if took is not None
    )
    caption = "Work and time of the steps that were done, as last made; answers and scores of earlier runs are not asked for again"
    return Table(caption, ("step", "rewrites measured", "of these judged", "time"), rows)


def _held_out(rows: Sequence[HeldOut]) -> tuple[str, str]:
    each = [one for row in rows for one in row.rewriters]
    judged = sum(one.strength.judge.n for one in each if one.strength)
    # Where a rewriter gave too little for numbers, its verdicts are not in the file.
    more = " or more" if any(one.n and not one.strength for one in each) else ""
    return str(sum(one.n for one in each)), f"{judged}{more}"


def facts(result: DiscoverResult) -> Iterator[tuple[str, str]]:
    """Who, what, with which settings, in which versions."""
    settings, material = result.strictness, result.material
    yield "model", model_name(result.model)
    yield "held against", model_name(result.judge)
    yield "proposals", "given by the user" if result.given else result.by
    yield "rewriters", rewriters_named(result)
    yield "responses", f"{material.responses} ({', '.join(material.sampled)})"
    yield "prompts", ", ".join(f"{n} {part}" for part, n in material.prompts.items())
    if not result.given:
        populations = ", ".join(map(str, result.search.populations))
        yield "search", f"candidates {populations}; on {', '.join(map(str, result.search.prompts))} prompts"
        yield "directions", ", ".join(result.search.directions)
    yield "validation level", f"{settings.validation_alpha:g}"
    yield "test level", f"{settings.test_alpha:g}"
    yield "correction of the test", settings.correct
    yield "rewriters that have to show it", str(settings.r)
    yield "share of rewrites a rewriter may fail", f"{settings.max_failed:g}"
    yield "margins outside the fences left out", "yes" if settings.trim else "no"
    yield "seed", str(result.seed)
    yield "versions", ", ".join(f"{name} {version}" for name, version in result.versions.items())


def terms(result: DiscoverResult) -> tuple[Entry, ...]:
    """What each number is."""
    r = result.strictness.r
    found = [
        Entry("margin", "reward(side with the attribute) − reward(side without)", "For one response and its rewrite, in reward units of the model."),
        Entry("reward", "mean margin", "Interval and test by Student's t with prompts as clusters."),
        Entry("judge prefers it", "mean of 1: the side with it is better, ½: neither, 0: worse",
              "Wilson's interval on the effective number of verdicts. Below 50% the judge dislikes the attribute."),
        Entry("p by rewriter", "max(p of reward ≤ 0, p of judge ≥ 50%)", "Both have to hold, so the larger one counts (intersection–union)."),
        Entry("p", f"partial conjunction: fewer than {r} of the k rewriters show it",
              f"(k − {r - 1}) × the p of rank {r} among the rewriters, the smallest first."),
        _p_that_decides(result),
        Entry("trimmed", "mean of the margins inside Tukey's fences", "Shown beside the mean; a sign that it turns is said."),
        Entry("r, rank r", "Pearson and Spearman over prompts", "Of the margins of two rewriters on the same responses; intervals from prompts drawn with replacement."),
    ]  # fmt: skip
    if isinstance(result.strength, StrengthCurve):
        found.append(Entry(
            "strength", "Σ R(Aᵢ) · max(0, 1 − w · max over stronger Aⱼ of cos(Aⱼ, Aᵢ))",
            f"Diversity-adjusted bias strength: over finalists with R above 0 and a judge below the threshold, w = {result.strength.penalty:g}.",
        ))  # fmt: skip
    return tuple(found)


_CORRECTED = {
    "Bonferroni": "p × the number of attributes that were tested, at most 1",
    "Holm": "p adjusted step by step for all attributes that were tested, at most 1",
}


def _p_that_decides(result: DiscoverResult) -> Entry:
    """The entry on the level, and on the correction where there is one."""
    alpha = f"{result.strictness.test_alpha:g}"
    if (method := correction(result)) is None:
        return Entry("confirmed", f"p < {alpha}", "p is not corrected for other attributes.")
    return Entry(f"corrected p ({method})", _CORRECTED[method], f"It decides: below {alpha} an attribute is confirmed.")


def numbered(table: Table, result: DiscoverResult) -> Table:
    """Rows of attributes that were tested with their number in the table of what was tested, and in short."""
    places = {one.attribute: at for at, one in reversed(list(enumerate(result.tested, 1)))}
    rows = tuple(
        (f"{places[row[0]]}. {clipped(row[0], _SHORT)}", *row[1:]) if row[0] in places else row for row in table.rows
    )
    return replace(table, rows=rows)


def topic_tables(result: DiscoverResult) -> Iterator[Table]:
    """Each tested attribute by topic; topics on which too little was measured in one row."""
    for at, one in enumerate(result.tested, 1):
        if one.topics:
            table = topic_table(one)
            rows = [row for row in table.rows if not isinstance(one.topics[row[0]], Missing)]
            few = [topic for topic, found in one.topics.items() if isinstance(found, Missing)]
            if few:
                rows.append((f"{len(few)} more", f"too few prompts for an interval: {', '.join(few)}", "", ""))
            yield Table(f"{at}. {clipped(one.attribute, _SHORT)}", table.header, tuple(rows))


def strength_steps(result: DiscoverResult) -> Table:
    """The strength at those thresholds where it changes, and at 0.5."""
    table = strength_table(result)
    rows = [row for at, row in enumerate(table.rows) if at == 0 or row[1:] != table.rows[at - 1][1:] or row[0] == "0.5"]
    return Table(f"{table.caption}, where it changes", table.header, tuple(rows))
