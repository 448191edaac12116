"""A discovery, of all prompts together or by topic, as a document: what is confirmed, with its numbers and its strongest pair, and
what limits it, was left out and was paid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from cda.discovery.attribute import with_short_name
from cda.discovery.decisions import NO_OBJECTION, attribute_cell, decision_on, model_name
from cda.discovery.discovery_screen import discovery_glance, topics_glance
from cda.records import PERCENT
from cda.report.document import Document, how_made, meaning
from cda.report.names import capital, distinct, renamed, short_name
from cda.report.next_step import after_discovery
from cda.report.numbers import (
    MINUS,
    cell,
    count,
    counted,
    decimals,
    duration,
    inert,
    listed,
    n_of,
    p_equals,
    p_value,
    reward,
    share,
    signed,
)
from cda.report.page import Entry, Headline, ReportSection, TextPair
from cda.report.plots import (
    BEFORE,
    FAINT,
    PAGE,
    Mark,
    Plot,
    Scale,
    draw_points,
    errors,
    legend,
    levels_plot,
    percent_axis,
)
from cda.report.scoring import cost_sentences, llm_table
from cda.report.tables import Columns, Row, Table, levels_table, p_differ, table
from cda.results.base import Estimate, Missing
from cda.results.discover import (
    Decision,
    DiscoverResult,
    SearchFacts,
    TestedAttribute,
    TopicAttribute,
    TopicCell,
    TopicsResult,
    summed,
)
from cda.results.effects import Heterogeneity
from cda.results.evidence import PairQuality, Strength

if TYPE_CHECKING:
    from matplotlib.axes import Axes

A = TypeVar("A", TestedAttribute, TopicAttribute)
_LEVEL = 0.05
"""Of the test that topics differ."""
_FEW_PROMPTS = 8
_MOST_FIGURES = 12
_NUMBERS = ("reward", "judge prefers it", "n")
_REWARD, _JUDGE, _ALL = "reward when it is added", "judge prefers the side with it", "all topics together"
CORRECTIONS = {"bonferroni": "Bonferroni", "holm": "Holm", "bh": "Benjamini and Hochberg", "none": ""}
_LABELLERS = {"measure": "the attribute's measure", "llm": "the LLM", None: ""}
_SAID: Mapping[Decision, str] = {
    "confirmed": "confirmed", "shared": "holds here too", "opposite": "the opposite holds", "not shown": "not shown",
    "not tested": "not tested",
}  # fmt: skip
_P = Entry("p", "(k − r + 1) × the p of rank r among k rewriters", "Of one, the larger p of reward ≤ 0, judge ≥ 50%.")
_TERMS = (
    _P,
    Entry("trimmed", "mean of the margins inside Tukey's fences", "Shown next to the mean; a change of its sign is reported."),
    Entry("strength", "Σ R(Aᵢ) · max(0, 1 − max over stronger Aⱼ of cos(Aⱼ, Aᵢ))", "Attributes whose reward the validation shows, with a judge below 50%; no interval."),
)  # fmt: skip
_TOPIC_TERMS = (
    _P,
    Entry("holds here too", "confirmed, in another topic", "Corrected among the attributes carried over, in both directions."),
    Entry("the opposite holds", "reward below 0 and judge above 50%", "Its bias file is the attribute turned around."),
    Entry(_ALL, "the test prompts of every topic as one set", "Corrected for all attributes of the table."),
    Entry("topics differ", "Welch's F, Holm over attributes", "I²: share of the variation between topics that is not noise."),
)  # fmt: skip


def discovery_document(result: DiscoverResult | TopicsResult) -> Document:
    """The attributes with their numbers, how they were found, and what limits them; drawn from discover.json or topics.json alone."""
    step, names = after_discovery(result), short_names(result)
    result = renamed(result, names)
    title = f"{'Attributes measured' if result.given else 'Biases discovered'} in {model_name(result.model)}"
    origin = "attributes were given, not searched for" if result.given else f"proposed by {result.by}"
    if isinstance(result, TopicsResult):
        title += ", topic by topic"
        said, findings, sections = topics_outcome(result), _topic_headlines(result), _topic_sections(result)
        glance, pair = topics_glance(result), None
    else:
        title += "" if result.topic is None else f", on the topic: {inert(result.topic)}"
        said, findings, sections = outcome(result), _headlines(result), _sections(result)
        glance, pair = discovery_glance(result), next(_strongest_pairs(result), None)
    headline, *more = said
    subtitle = f"Held against {model_name(result.judge)}; {origin}; rewritten by {rewriters_named(result)}."
    asked = tuple(filter(None, [llm_table(result.stages)]))
    whole = tuple(Entry(short, "", inert(words)) for words, short in names.items() if short != words.rstrip("."))
    closing = (
        *([ReportSection("attributes", "The attributes in full", entries=whole, aside=True)] if whole else []),
        ReportSection("effort", "What it cost", (), asked, sentences=cost_sentences(result.stages)),
        how_made(result.versions, _method(result), _facts(result)),
        meaning(*(_TOPIC_TERMS if isinstance(result, TopicsResult) else _TERMS)),
    )
    return Document(
        title, subtitle, (*(Headline("", each) for each in more), *findings), (*sections, *closing), headline=capital(headline),
        glance=glance, pair=pair, next=step,
    )  # fmt: skip


def short_names(result: DiscoverResult | TopicsResult) -> dict[str, str]:
    """The attributes that were tested or validated, in words, to what tables and figures call them: by their files, or by leading words."""
    if isinstance(result, TopicsResult):
        known = {row.attribute: row.short_name for row in result.by_attribute}
    else:
        held_out = (result.candidates.get(each.candidate) for each in (*result.tested, *result.validated))
        known = {entry.attribute: None for entry in result.tested}
        known |= {each.attribute: with_short_name(each.bias).short_name for each in held_out if each}
    return distinct({words: own or short_name(words) for words, own in known.items()})


def rewriters_named(result: SearchFacts) -> str:
    """The rewriters; rules at several shares of the places are one, whose strengths agree more than two LLMs would."""
    names = ", ".join(result.rewriters)
    return f"one rule engine at {len(result.rewriters)} strengths ({names})" if result.by_rules else names


def numbered(rows: Sequence[A]) -> list[tuple[str, A]]:
    """Attributes with their numbers in the table."""
    return [(f"{at}. {inert(row.attribute)}", row) for at, row in enumerate(rows, 1)]


def _method(result: DiscoverResult | TopicsResult) -> Iterator[str]:
    """Material and participants, and the meaning of reward, judge and confirmed."""
    material, prompts, by_topic = result.material, result.material.prompts, isinstance(result, TopicsResult)
    n_topics = f" of {n_of(len(result.searches), 'topic')}" if isinstance(result, TopicsResult) else ""
    yield (
        f"{material.responses} responses ({material.left_out} left out) to {sum(prompts.values())} prompts{n_topics}: {prompts['train']} to "
        f"search on, {prompts['validation']} to validate, {prompts['test']} to test"
        f"{'; nothing was searched for, so that all were measured on' if result.given else ''}."
    )
    if isinstance(result, DiscoverResult) and not result.given:
        measured = {row.candidate for generation in result.generations for row in generation.standings}
        yield f"{len(measured)} candidates in {len(result.generations)} generations, proposed by {result.by}."
    if by_topic and not result.given:
        yield "Each topic is searched by itself; what entered its test was then measured on the test prompts of every other topic."
    if result.by_rules:
        yield (
            "No LLM proposed or rewrote: attributes are those that rules can see and write, and one rule engine at several strengths is "
            "one rewriter, no evidence that another one would find the same."
        )
    yield (
        "Reward: mean change when the attribute is added, in reward units. Judge: how often the side with it is preferred, ties as "
        f"halves. Both with {PERCENT} intervals, clustered by prompt."
    )
    yield from _judge_sentences(result)
    method = CORRECTIONS[result.strictness.correct]
    corrected_for = (
        f", corrected by {method}'s method for all tested{' in the topic' if by_topic else ''}," if method else ""
    )
    yield (
        f"Confirmed: at least {result.strictness.r} of {rewriters_named(result)} show, each by itself, that the model rewards it and the "
        f"judge does not (partial conjunction); p{corrected_for} is below {result.strictness.test_alpha:g}."
    )
    if isinstance(result, DiscoverResult) and result.strength is not None:
        told = cell(result.strength, lambda found: f"{found['0.5']:.2f} reward units", None)
        n = sum(row.rewarded(result.strictness.validation_alpha) for row in result.validated)
        yield f"Diversity-adjusted bias strength (DABS) of the {n} validated attributes, by their validation numbers: {told}."


def _judge_sentences(result: DiscoverResult | TopicsResult) -> Iterator[str]:
    """What the judge was asked, and how far its verdicts follow the place."""
    judge = model_name(result.judge)
    if isinstance(result, TopicsResult):
        yield f"What {judge} was asked, and how far it follows the place of a text, stands in the report of each topic."
        return
    known = {"validation": result.validation.verdicts if result.validation else None, "test": result.verdicts}
    steps = {step: verdicts for step, verdicts in known.items() if verdicts}
    if not steps and (result.validated or result.tested):
        yield f"{capital(judge)} gives rewards: of two sides it prefers the one with the higher reward, whatever their order."
    for step, found in steps.items():
        read = found.asked - found.unread - found.half_read
        bias = (
            ""
            if found.position_bias is None
            else f", a mean preference for the first text of {found.position_bias:+.2f} (−1 to 1)"
        )
        yield (
            f"{capital(judge)} was asked which of the two responses is better, in both orders, in {n_of(found.asked, 'comparison')} of the {step}: of the "
            f"{read} read in both, {found.flipped} follow the place and not the text{bias}; they count as ties."
        )


def _facts(result: DiscoverResult | TopicsResult) -> dict[str, object]:
    settings = result.strictness.model_dump() | ({} if result.given else result.search.model_dump())
    made = duration(sum(stage.seconds for stage in result.stages.values()))
    more = {"responses of": tuple(result.material.sampled), "time of the steps, as last made": made}
    return {**settings, **more, "seed": result.seed}


def strength_cells(found: Strength | Missing | None) -> tuple[str, str, str]:
    """Reward, judge and n; or the reason for none."""
    if isinstance(found, Strength):
        return signed(found.reward), share(found.judge), count(found.reward)
    return (found.reason if found else ""), "", ""


# All prompts together.


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
        yield (
            f"None of {len(last)} candidates could be measured, so that nothing is known of them. "
            f"Rewrites that are missing: {counted(dict(sorted(summed(row.failed for row in last).items()))) or 'none'}."
        )
    elif tested:
        yield f"None of {n_of(len(tested), 'candidate')} held on the test prompts: {nothing_shown}."
        yield from _without_objection(
            [entry.attribute for at, entry in enumerate(tested) if decision_on(at, result) == NO_OBJECTION]
        )
    elif n_dropped := _n_dropped(result):
        yield f"Nothing was tested: the review dropped all {n_dropped} candidates that held on the validation prompts."
    else:
        yield f"None of {n_of(len(result.validated), 'candidate')} held on the validation prompts: {nothing_shown}."
        alpha = result.strictness.validation_alpha
        yield from _without_objection(
            [attribute_cell(row.candidate, result) for row in result.validated if row.rewarded(alpha)]
        )


def _without_objection(attributes: Sequence[str]) -> Iterator[str]:
    """The attributes that the model rewards, while no objection of the judge is shown."""
    if attributes:
        yield f"{NO_OBJECTION.capitalize()}: {listed(list(attributes))}."


def _n_dropped(result: DiscoverResult) -> int:
    """Candidates that held on the validation prompts and did not enter the test: only a person can have dropped them."""
    tested = {entry.candidate for entry in result.tested}
    return sum(entry.passed and entry.candidate not in tested for entry in result.validated)


def limits(result: DiscoverResult) -> Iterator[str]:
    """The limits of the numbers."""
    if n := result.earlier_tests:
        yield (
            f"Tested {n_of(n, 'time')} before on these prompts, with other settings or candidates (superseded/): "
            "the p-values are not those of one test."
        )
    for entry in result.tested:
        name = entry.attribute
        yield from (f"{name}: {warning}." for warning in entry.warnings)
        if entry.untested:
            yield f"{name}: not tested, because {entry.untested}."
    if result.tested and (n_dropped := _n_dropped(result)):
        yield f"{n_dropped} candidates that held on the validation prompts were dropped in the review and not tested."
    for row in result.validated:
        if row.untested:
            yield f"{attribute_cell(row.candidate, result)}: not validated, because {row.untested}."
    yield from _power(result)


def _power(result: DiscoverResult) -> Iterator[str]:
    """The smallest reward that would have been found, of those results on which it is the reward that was not shown."""
    missed = [
        entry.smallest_detectable for at, entry in enumerate(result.tested) if decision_on(at, result) == "not shown"
    ]
    if not result.tested:
        alpha = result.strictness.validation_alpha
        missed = [
            row.smallest_detectable for row in result.validated if row.p_reward is not None and row.p_reward >= alpha
        ]
    if detectable := sorted(found for found in missed if found is not None):
        least, most = reward(detectable[0]), reward(detectable[-1])
        span = least if least == most else f"{least} to {most} by attribute"
        yield (
            f"Where no reward was shown, a mean reward of {span} would have been found with 80% power, if only the reward were in "
            "question, and rewriters are taken as independent."
        )


def _headlines(result: DiscoverResult) -> Iterator[Headline]:
    """Every confirmed attribute with its numbers; those of the others are in the table."""
    rows = numbered(result.tested)
    for name, entry in rows:
        if entry.confirmed:
            gained, preferred, n = strength_cells(entry.pooled)
            adjusted = f" (corrected {cell(entry.p_corrected, p_equals)})" if _correction(result) else ""
            file = f" Bias file: {entry.file}." if entry.file else ""
            numbers = f"reward {gained}, {model_name(result.judge)} prefers the side with it in {preferred}, n = {n}"
            yield Headline(f"{name}:", f"{numbers}, p {cell(entry.p_value, p_equals)}{adjusted}.{file}", "bad")
    if n_others := sum(not entry.confirmed for _, entry in rows):
        yield Headline("Not confirmed:", f"{n_others} more, with their numbers in the table below.")


def _correction(result: DiscoverResult) -> str:
    """The method that corrects the p-values of the test; empty if they stay as they are."""
    return CORRECTIONS[result.strictness.correct] if len(result.tested) > 1 else ""


def _sections(result: DiscoverResult) -> Iterator[ReportSection]:
    if tested := tested_table(result):
        yield ReportSection("tested", "What was tested", (), (tested,), tuple(_tested_plots(result)))
    if pairs := tuple(_strongest_pairs(result)):
        text = "For each attribute the rewrite on which model and judge disagree most; it is chosen so, and no random sample."
        yield ReportSection("examples", "Strongest pairs", (text,), texts=pairs, aside=True)
    yield from _limits_section(limits(result))
    more = {
        ("rewriters", "Rewriter by rewriter"): (_rewriter_table(result), _pairs_table(result), _drift_table(result)),
        ("validation", "Validation"): (_validation_table(result),),
        ("excluded", "What was left out"): (excluded_table(result),),
    }
    for (id, title), tables in more.items():
        if known := tuple(filter(None, tables)):
            yield ReportSection(id, title, (), known, aside=True)


def _limits_section(said: Iterable[str]) -> Iterator[ReportSection]:
    if sentences := tuple(said):
        yield ReportSection("limits", "What limits these numbers", sentences=sentences)


def _strongest_pairs(result: DiscoverResult) -> Iterator[TextPair]:
    """The pair of each confirmed attribute (of each that was given) on which model and judge disagree most."""
    for name, entry in numbered(result.tested):
        for row in entry.examples[:1] if entry.confirmed or result.given else ():
            prompt = "\n".join(turn.content for turn in row.prompt)
            judge = (
                "no verdict of the judge"
                if row.preference is None
                else f"judge {row.preference:g} for the side with it"
            )
            way = "with it" if row.direction == "add" else "without it"
            notes = (
                f"Margin {reward(row.margin)}; {judge}.",
                f"First without it, then with it; the side {way} was rewritten by {row.rewriter}.",
            )
            yield TextPair(name, prompt, row.without_attribute, row.with_attribute, notes)


def tested_table(result: DiscoverResult) -> Table | None:
    """Tested attributes, pooled over rewriters."""
    method = _correction(result)
    rows = []
    for at, (name, entry) in enumerate(numbered(result.tested)):
        ps = [cell(p, p_value) for p in ((entry.p_value, entry.p_corrected) if method else (entry.p_value,))]
        rows.append((name, *strength_cells(entry.pooled), *ps, decision_on(at, result)))
    n, n_all = result.n_test_prompts, sum(result.material.prompts.values())
    caption = "Tested on prompts that nothing was selected on"
    if result.given:  # an attribute may have been found on these very prompts
        caption = f"Measured on all {n} prompts" if n == n_all else f"Measured on {n} of {n_all} prompts"
    header = ("p", f"corrected p ({method})") if method else ("p",)
    return table(caption, ("attribute", *_NUMBERS, *header, "decision"), rows)


def _tested_plots(result: DiscoverResult) -> Iterator[Plot]:
    """Every tested attribute by reward and judge, with both intervals; numbers are those of the table."""
    drawn = [(at, entry, entry.pooled) for at, entry in enumerate(result.tested, 1) if entry.pooled]
    if drawn:
        words = " ".join(
            f"{at} ({inert(entry.attribute)}): reward {signed(pooled.reward)}, judge {share(pooled.judge)}"
            f"{', confirmed' if entry.confirmed else ''}."
            for at, entry, pooled in drawn
        )
        title = (
            "Reward against judge; numbers as in the table. Top left is what the model likes and the judge does not."
        )
        known = tuple(each for *_, pooled in drawn for each in (pooled.reward, pooled.judge))
        yield Plot("tested", title, words, partial(_draw_tested, drawn), 3.1, known)


def _draw_tested(drawn: Sequence[tuple[int, TestedAttribute, Strength]], axes: Axes) -> None:
    axes.axhline(0, color=FAINT, linewidth=0.8)
    axes.axvline(0.5, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)))
    kinds = {True: Mark("confirmed", BEFORE, "D"), False: Mark("not confirmed", FAINT, "o", filled=False)}
    for confirmed, mark in kinds.items():
        if own := [pooled for _, entry, pooled in drawn if entry.confirmed == confirmed]:
            judges, rewards = [each.judge for each in own], [each.reward for each in own]
            xs, ys = [judge.value for judge in judges], [found.value for found in rewards]
            draw_points(axes, mark, xs, ys, xerr=errors(judges), yerr=errors(rewards))
    for at, entry, pooled in drawn:
        # To four sides in turn, since neighbours in the table are often neighbours here.
        side = ((5, 5), (5, -12), (-11, 5), (-11, -12))[at % 4]
        where, color = (pooled.judge.value, pooled.reward.value), kinds[entry.confirmed].color
        # Intervals that cross a number stay visible, but fainter.
        ground = {"boxstyle": "square,pad=0.02", "facecolor": PAGE, "edgecolor": "none", "alpha": 0.75}
        axes.annotate(
            str(at), where, side, textcoords="offset points", color=color, weight="bold", zorder=4, bbox=ground
        )
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel(_JUDGE)
    axes.set_ylabel(_REWARD)
    percent_axis(axes)
    legend(axes, 2)


def _rewriter_table(result: DiscoverResult) -> Table | None:
    rows = []
    for name, entry in numbered(result.tested):
        for each in entry.rewriters:
            numbers = ("", "", "", "", "")
            if own := each.strength:
                trim = own.trimmed
                trimmed = f"{signed(trim.estimate)} ({trim.n_trimmed} left out)" if trim else ""
                numbers = signed(own.reward), trimmed, share(own.win_rate), share(own.judge), p_value(own.p_value)
            rows.append((name, each.rewriter, f"{each.n} of {each.asked}", *numbers, each.excluded or ""))
    header = ("attribute", "rewriter", "n, of rewrites asked for", "reward", "trimmed", "rewarded in", "judge prefers it", "p",
              "left out because")  # fmt: skip
    return table("By rewriter", header, rows)


def _looked_at(result: DiscoverResult) -> list[tuple[str, PairQuality]]:
    rows = numbered(result.tested)
    return [(name, result.pairs[entry.candidate]) for name, entry in rows if entry.candidate in result.pairs]


def _pairs_table(result: DiscoverResult) -> Table | None:
    rows = []
    for name, quality in _looked_at(result):
        fidelity, labelled_by = quality.fidelity, _LABELLERS[quality.labelled_by]
        shares = (cell(fidelity.present, share), cell(fidelity.absent, share)) if fidelity else ("", "")
        r = ", ".join(decimals(pair.pearson) for pair in quality.agreement if isinstance(pair.pearson, Estimate))
        rows.append((name, *shares, labelled_by, r, str(quality.n)))
    header = ("attribute", "present where added", "absent elsewhere", "labelled by", "r between rewriters", "pairs")
    return table("How well the rewrites were made", header, rows)


def _drift_table(result: DiscoverResult) -> Table | None:
    """Features but the attribute's own that differ beyond their limit in some pairs, those of most pairs first."""
    rows: list[Row] = []
    for name, quality in _looked_at(result):
        if isinstance(quality.drift, Missing):
            rows.append((name, f"not known: {quality.drift.reason}", "", "", "", "", ""))
            continue
        beyond = [
            (row, row.beyond) for row in quality.drift if not row.is_treatment and row.beyond and row.beyond.value
        ]
        for row, pairs in sorted(beyond, key=lambda item: -item[1].value):
            numbers = f"{row.base_mean:.2f}", f"{row.perturbed_mean:.2f}", cell(row.difference, signed)
            rows.append((name, row.name, *numbers, cell(row.standardised, signed), share(pairs)))
    header = ("attribute", "feature", "without", "with", f"with {MINUS} without", "in SDs", "pairs beyond the limit")
    return table("What else differs between the sides, where pairs are beyond a limit", header, rows)


def _validation_table(result: DiscoverResult) -> Table | None:
    alpha = result.strictness.validation_alpha
    rows = (
        (attribute_cell(row.candidate, result), *strength_cells(row.pooled), cell(row.p_reward, p_value), cell(row.p_judge, p_value),
         "passed" if row.passed else NO_OBJECTION if row.rewarded(alpha) else "not tested" if row.untested else "not shown")
        for row in result.validated
    )  # fmt: skip
    header = ("attribute", *_NUMBERS, "p reward", "p judge", "decision")
    return table("Validation, corrected for all that entered (Bonferroni)", header, rows)


def excluded_table(result: DiscoverResult) -> Table | None:
    """Everything that did not reach a number, by step and reason."""
    rows = (
        (step, reason, str(n), "" if seen is None else str(seen))
        for step, reasons, seen in result.left_out()
        for reason, n in reasons.items()
        if n
    )
    return table("Left out, by step and reason", ("step", "left out because", "n", "of"), rows)


# Topic by topic.


def topics_outcome(result: TopicsResult) -> Iterator[str]:
    """The outcome; the first sentence by itself says it."""
    topics, rows = n_of(len(result.searches), "topic"), result.by_attribute
    model, judge = model_name(result.model), model_name(result.judge)
    where = [search.topic for search in result.searches if search.n_confirmed]
    if result.given:
        confirmed = sum(bool(row.in_topics("confirmed")) for row in rows)
        yield f"{model} over-rewards {confirmed} of {len(rows)} attributes in at least one of {topics}, held against {judge}."
    elif not where:
        yield f"No bias of {model} against {judge} is shown in any of {topics}, each searched by itself."
    else:
        them = "it" if result.n_confirmed == 1 else "them"
        yield (
            f"{n_of(result.n_confirmed, 'attribute')} confirmed in {len(where)} of {topics}: {model} rewards {them} there, {judge} "
            "does not."
        )
    counts = {
        "hold in more than one topic": sum(len(row.in_topics("confirmed", "shared")) > 1 for row in rows),
        "hold only in a topic that they were carried over to": sum(
            bool(row.in_topics("shared")) and not row.in_topics("confirmed") for row in rows
        ),
        "rewarded in one topic and punished in another, which a search over all topics together would miss": sum(
            map(_turns, rows)
        ),
    }
    if len(result.searches) > 1:
        own = sum(bool(row.in_topics("confirmed")) and row.together.decision != "confirmed" for row in rows)
        counts["confirmed in a topic and not over all topics together"] = own
    if said := [f"{n} {what}" for what, n in counts.items() if n]:
        yield f"Attributes: {'; '.join(said)}."


def _turns(row: TopicAttribute) -> bool:
    """True if it is decided both ways, or if its intervals lie on both sides of 0 and the topics differ as tested."""
    if row.in_topics("confirmed", "shared") and row.in_topics("opposite"):
        return True
    return row.turns and _topics_differ(row)


def _topics_differ(row: TopicAttribute) -> bool:
    return isinstance(test := row.differ["model"], Heterogeneity) and test.holm < _LEVEL


def topic_limits(result: TopicsResult) -> Iterator[str]:
    """The limits of the numbers."""
    method, alpha = CORRECTIONS[result.strictness.correct], result.strictness.test_alpha
    tests = [own for row in result.by_attribute for own in row.levels if own.decision == "confirmed"]
    if method and len(result.searches) > 1 and tests:
        holds = sum(own.p_over_all is not None and own.p_over_all < alpha for own in tests)
        yield (
            f"Each topic is corrected by itself, so that with more topics more is confirmed by chance. Corrected for the tests of all "
            f"topics together ({method}), {holds} of the {len(tests)} confirmed in the tables stay below {alpha:g}."
        )
    if before := {search.topic: search.earlier_tests for search in result.searches if search.earlier_tests}:
        times = ", ".join(f"{inert(topic)} {n_of(n, 'time')}" for topic, n in before.items())
        yield (
            f"Tested before on these prompts, with other settings or candidates (superseded/): {times}. The p-values are not those "
            "of one test."
        )
    for topic, reason in result.left_out.items():
        yield f"Not searched: {inert(topic)} ({reason})."
    if result.n_without:
        yield f"{n_of(result.n_without, 'prompt')} that name no topic, or two, were left out."
    if result.n_not_carried:
        yield (
            f"{n_of(result.n_not_carried, 'tested attribute')} beyond the first of each topic were not measured in the others "
            "(discover.carried); the topics' own reports show them."
        )
    small = sum(search.prompts["test"] < _FEW_PROMPTS for search in result.searches)
    if small and not result.given:
        yield (
            f"Fewer than {_FEW_PROMPTS} test prompts in {small} of {len(result.searches)} topics: only large effects can be confirmed "
            "there, and “not shown” says little."
        )


def _topic_headlines(result: TopicsResult) -> Iterator[Headline]:
    others = 0
    for name, row in numbered(result.by_attribute):
        held = {
            said: ", ".join(inert(topic) for topic in row.in_topics(decision))
            for decision, said in _SAID.items()
            if row.in_topics(decision)
        }
        if row.in_topics("confirmed", "shared", "opposite"):
            yield Headline(f"{name}:", f"{'; '.join(f'{said} in {topics}' for said, topics in held.items())}.", "bad")
        else:
            others += 1
    if others:
        yield Headline("Not confirmed in any topic:", f"{others} more that were tested, with their numbers below.")


def _topic_sections(result: TopicsResult) -> Iterator[ReportSection]:
    if tables := tuple(attribute_tables(result)):
        yield ReportSection("by-topic", "Topic by topic", (), tables, tuple(_forest_plots(result)))
    yield from _limits_section(topic_limits(result))
    text = "Each topic has a discovery of its own, with its strongest pairs, the search and the quality of rewrites."
    yield ReportSection("searches", "The searches", (text,), (_search_table(result),), aside=True)


def attribute_tables(result: TopicsResult) -> Iterator[Table]:
    """One table for each attribute: every topic, and all of them together."""
    columns: Columns[TopicCell] = {
        "reward": _reward_of,
        "judge prefers it": lambda own: cell(own.of("judge", "model"), share),
        "n": lambda own: cell(own.of("reward", "model"), count),
        "corrected p": _p_of_cell,
        "decision": _decided_in,
    }
    for name, row in numbered(result.by_attribute):
        rows = [(inert(own.name), own) for own in (*row.levels, row.together)]
        differ = row.differ["model"]
        i_squared = f"I² {differ.i_squared:.0%}" if isinstance(differ, Heterogeneity) else ""
        last = [("topics differ", "", "", "", p_differ(differ), i_squared)] if i_squared else []
        yield from filter(None, [levels_table(name, "topic", rows, columns, last)])


def _reward_of(own: TopicCell) -> str:
    found = own.found["reward"]["model"]
    return found.reason if isinstance(found, Missing) else signed(found)


def _p_of_cell(own: TopicCell) -> str:
    """The corrected p of the direction in which the cell points."""
    if own.p_opposite is not None and own.p_opposite < (1.0 if own.p_corrected is None else own.p_corrected):
        return f"{cell(own.p_opposite, p_value)} (of the opposite)"
    return cell(own.p_corrected, p_value)


def _decided_in(own: TopicCell) -> str:
    more = "" if own.found_here or own.decision in ("shared", "not tested") else ", carried over"
    return f"{_SAID[own.decision]}{more}"


def _search_table(result: TopicsResult) -> Table:
    header = (
        "topic",
        "prompts",
        "candidates",
        "validated",
        "tested",
        "confirmed",
        "carried over to it",
        "its own report",
    )
    rows = []
    for each in result.searches:
        found = (each.n_candidates, each.n_validated, each.n_tested, each.n_confirmed, each.n_carried_in)
        counts = map(str, (sum(each.prompts.values()), *found))
        rows.append((inert(each.topic), *counts, f"{each.folder}/report.html"))
    return Table("The topics", header, tuple(rows))


def _forest_plots(result: TopicsResult) -> Iterator[Plot]:
    for at, (name, row) in enumerate(numbered(result.by_attribute)[:_MOST_FIGURES], 1):
        shown = ((f"{own.name}: {_SAID[own.decision]}", own) for own in (*row.levels, row.together))
        title = f"{name}: reward in each topic, and over all of them"
        plot = levels_plot(f"topics-{at}", title, shown, "reward", ("model",), Scale(_REWARD, reference=0))
        yield from [plot] if plot else []
