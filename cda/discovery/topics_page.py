"""A discovery by topic in sentences, tables, figures, Markdown and as a page, drawn from topics.json alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cda.discovery.discovery_tables import correction_name, model_name, rewriters_named, rewriters_needed
from cda.report.document import Document
from cda.report.numbers import cell, clipped, count, duration, inert, p_equals, p_value, share, signed
from cda.report.page import Entry, Headline, ReportSection
from cda.report.plots import AFTER, BEFORE, FAINT, Plot, across, key, name_rows, named
from cda.report.scoring import cost_sentences, llm_table
from cda.report.tables import Row, Table
from cda.results.base import Missing
from cda.results.evidence import Strength
from cda.results.topics import Decision, Heterogeneity, TopicAttribute, TopicCell, TopicsResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SHORT = 90
ALL = "all topics together"
SAID: dict[Decision, str] = {
    "confirmed": "confirmed",
    "shared": "holds here too",
    "opposite": "the opposite holds",
    "not shown": "not shown",
    "not tested": "not tested",
}
_CSV = ("attribute", "name", "topic", "found_here", "decision", "reward", "reward_low", "reward_high", "judge", "judge_low",
        "judge_high", "n", "n_prompts", "p", "p_corrected", "p_over_all", "p_opposite_corrected", "bias_file")  # fmt: skip


def numbered(result: TopicsResult, most: int = SHORT) -> list[tuple[str, TopicAttribute]]:
    """The attributes, shortened, with their numbers in the table."""
    return [(f"{at}. {clipped(inert(row.attribute), most)}", row) for at, row in enumerate(result.by_attribute, 1)]


def summary_table(result: TopicsResult, most: int = SHORT) -> Table:
    """One row for each attribute: where it holds, the numbers over all topics, and how much topics differ."""
    rows: list[Row] = []
    for name, row in numbered(result, most):
        pooled = row.pooled
        numbers = (signed(pooled.reward), share(pooled.judge)) if isinstance(pooled, Strength) else ("", "")
        rows.append((name, *(topics_with(row, decision) for decision in ("confirmed", "shared", "opposite")), *numbers,
                     "yes" if row.pooled_confirmed else "no", *_difference(row.differs)))  # fmt: skip
    header = ("attribute", "confirmed in", "holds too in", "opposite in", "reward, all topics", "judge prefers it, all topics",
              "confirmed, all topics", "topics differ, p", "I²")  # fmt: skip
    return Table("Attributes over all topics", header, tuple(rows))


def topics_with(row: TopicAttribute, decision: Decision) -> str:
    """The topics in which it was decided so, in words."""
    return ", ".join(inert(clipped(topic, _TOPIC)) for topic in row.in_topics(decision))


def _difference(differs: Heterogeneity | Missing) -> tuple[str, str]:
    if isinstance(differs, Missing):
        return "not known", ""
    return cell(differs.p_holm, p_value), f"{differs.i_squared:.0%}"


def attribute_tables(result: TopicsResult) -> list[Table]:
    """One table for each attribute: every topic, and all of them together."""
    return [attribute_table(name, row) for name, row in numbered(result)]


def attribute_table(caption: str, row: TopicAttribute) -> Table:
    """Every topic, and all of them together."""
    rows: list[Row] = [
        (inert(clipped(own.topic, SHORT)), *numbers_of(own.strength), _p(own), _decided(own)) for own in row.cells
    ]
    whole = "confirmed" if row.pooled_confirmed else "not shown" if row.pooled_p is not None else "not tested"
    rows.append((ALL, *numbers_of(row.pooled), cell(row.pooled_p_corrected, p_value), whole))
    header = ("topic", "reward", "judge prefers it", "n", "corrected p", "decision")
    return Table(caption, header, tuple(rows))


def numbers_of(strength: Strength | Missing) -> tuple[str, str, str]:
    """Reward, judge and n, or the reason for none."""
    if isinstance(strength, Missing):  # the topic's own report has the whole reason
        return clipped(strength.reason, _BRIEF), "", ""
    return signed(strength.reward), share(strength.judge), count(strength.reward)


def _p(own: TopicCell) -> str:
    """The corrected p of the direction in which the cell points."""
    if own.p_opposite is not None and own.p_opposite < (1.0 if own.p_corrected is None else own.p_corrected):
        return f"{cell(own.p_opposite, p_value)} (of the opposite)"
    return cell(own.p_corrected, p_value)


def _decided(own: TopicCell) -> str:
    more = "" if own.found_here or own.decision in ("shared", "not tested") else ", carried over"
    return f"{SAID[own.decision]}{more}"


def search_table(result: TopicsResult) -> Table:
    """One row for each topic; without the steps of a search if the attributes were given."""
    rows: list[Row] = []
    for search in result.searches:
        own: tuple[int, ...] = (*search.prompts.values(), search.n_candidates, search.n_validated, search.n_tested)
        own = (*own, search.n_confirmed, search.n_carried_in)
        if result.given:
            own = sum(search.prompts.values()), search.n_tested, search.n_confirmed
        rows.append((inert(clipped(search.topic, SHORT)), *map(str, own), f"{search.folder}/report.html"))
    steps = (
        "prompts to search on",
        "to validate",
        "to test",
        "candidates",
        "validated",
        "tested",
        "confirmed",
        "carried over to it",
    )
    header = ("prompts", "tested", "confirmed") if result.given else steps
    return Table("The topics", ("topic", *header, "its own report"), tuple(rows))


def table_rows(result: TopicsResult) -> Iterator[tuple[object, ...]]:
    """The header and rows of topics.csv: each attribute in each topic, then over all topics; empty for what is not known."""
    yield _CSV
    for row in result.by_attribute:
        for own in row.cells:
            ps = own.p_value, own.p_corrected, own.p_over_all, own.p_opposite
            names = (_guarded(row.attribute), row.name, _guarded(own.topic), own.found_here, own.decision)
            yield *names, *_values(own.strength), *map(_number, ps), own.file or ""
        whole = "confirmed" if row.pooled_confirmed else "not shown" if row.pooled_p is not None else "not tested"
        ps = row.pooled_p, row.pooled_p_corrected, None, None
        yield _guarded(row.attribute), row.name, ALL, "", whole, *_values(row.pooled), *map(_number, ps), ""


def _values(strength: Strength | Missing) -> tuple[object, ...]:
    if isinstance(strength, Missing):
        return ("",) * 8
    gain, judge = strength.reward, strength.judge
    return (
        *map(_number, (gain.value, gain.low, gain.high, judge.value, judge.low, judge.high)),
        gain.n,
        gain.n_prompts,
    )


def _number(value: float | None) -> object:
    return "" if value is None else float(f"{value:.6g}")


def _guarded(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in "=+-@" else text


def counted_word(n: int, what: str) -> str:
    """A number with its noun, in the plural if need be."""
    return f"{n} {what}{'' if n == 1 else 's'}"


MOST_FIGURES = 12
_LEVEL = 0.05
"""Of the test that topics differ."""
_BRIEF, _TOPIC = 50, 50
_MARKS: dict[Decision, tuple[str, str, bool]] = {
    "confirmed": (BEFORE, "D", True),
    "shared": (BEFORE, "o", True),
    "opposite": (AFTER, "s", True),
    "not shown": (FAINT, "o", False),
    "not tested": (FAINT, "o", False),
}


def outcome(result: TopicsResult) -> Iterator[str]:
    """The outcome; the first sentence by itself says it."""
    n, topics = len(result.searches), counted_word(len(result.searches), "topic")
    model, judge = model_name(result.model), model_name(result.judge)
    where = [search.topic for search in result.searches if search.n_confirmed]
    if result.given:
        confirmed = sum(bool(row.in_topics("confirmed")) for row in result.by_attribute)
        yield f"{model} over-rewards {confirmed} of {len(result.by_attribute)} attributes in at least one of {topics}, held against {judge}."
    elif not where:
        yield f"No bias of {model} against {judge} is shown in any of {topics}, each searched by itself."
    else:
        yield (
            f"{counted_word(result.n_confirmed, 'attribute')} confirmed in {len(where)} of {topics}: {model} rewards them "
            f"there, {judge} does not."
        )
    if shared := [row for row in result.by_attribute if len(row.in_topics("confirmed", "shared")) > 1]:
        yield f"{counted_word(len(shared), 'attribute')} {'holds' if len(shared) == 1 else 'hold'} in more than one topic."
    if elsewhere := [row for row in result.by_attribute if row.in_topics("shared") and not row.in_topics("confirmed")]:
        one = len(elsewhere) == 1
        yield (
            f"{counted_word(len(elsewhere), 'attribute')} {'is' if one else 'are'} not confirmed where {'it was' if one else 'they were'} "
            f"found, and {'holds' if one else 'hold'} in a topic that {'it was' if one else 'they were'} carried over to."
        )
    if turned := [row for row in result.by_attribute if _turns(row)]:
        one = len(turned) == 1
        yield (
            f"{counted_word(len(turned), 'attribute')} {'is' if one else 'are'} rewarded in one topic and punished in another, "
            "so that a search over all topics together would see less or nothing."
        )
    if n > 1 and (
        hidden := [row for row in result.by_attribute if row.in_topics("confirmed") and not row.pooled_confirmed]
    ):
        one = len(hidden) == 1
        yield f"{len(hidden)} of the confirmed {'is' if one else 'are'} not confirmed on the test prompts of all topics together."


def _turns(row: TopicAttribute) -> bool:
    """True if it is decided both ways, or if its intervals lie on both sides of 0 and the topics differ as tested."""
    if row.in_topics("confirmed", "shared") and row.in_topics("opposite"):
        return True
    return row.turns and isinstance(row.differs, Heterogeneity) and (row.differs.p_holm or 0.0) < _LEVEL


def warnings(result: TopicsResult) -> Iterator[str]:
    """The limits of the numbers."""
    method, alpha = correction_name(result.strictness.correct), result.strictness.test_alpha
    tests = [cell for row in result.by_attribute for cell in row.cells if cell.decision == "confirmed"]
    if method and len(result.searches) > 1 and tests:
        holds = sum(cell.p_over_all is not None and cell.p_over_all < alpha for cell in tests)
        yield (
            f"Each topic is corrected by itself, so that with more topics more is confirmed by chance. Corrected for the tests of all "
            f"topics together ({method}), {holds} of the {len(tests)} confirmed in the tables stay below {alpha:g}."
        )
    if before := {search.topic: search.earlier_tests for search in result.searches if search.earlier_tests}:
        times = ", ".join(f"{inert(clipped(topic, SHORT))} {counted_word(n, 'time')}" for topic, n in before.items())
        yield (
            f"Tested before on these prompts, with other settings or candidates (superseded/): {times}. The p-values are not those of one test."
        )
    for topic, reason in result.left_out.items():
        yield f"Not searched: {inert(clipped(topic, SHORT))} ({reason})."
    if result.n_without:
        yield f"{counted_word(result.n_without, 'prompt')} that name no topic, or two, were left out."
    if result.n_not_carried:
        yield (
            f"{counted_word(result.n_not_carried, 'tested attribute')} beyond the first of each topic were not measured in the others "
            "(discover.carried); the topics' own reports show them."
        )
    small = [search.topic for search in result.searches if search.prompts["test"] < 8]
    if small and not result.given:
        yield (
            f"Fewer than 8 test prompts in {len(small)} of {len(result.searches)} topics: only large effects can be confirmed there, and "
            "“not shown” says little."
        )


def how_made(result: TopicsResult) -> Iterator[str]:
    prompts = result.material.prompts
    yield (
        f"{result.material.responses} responses to {sum(prompts.values())} prompts of {len(result.searches)} topics; each topic is split "
        "into prompts to search on, to validate and to test on."
    )
    if result.given:
        yield f"The attributes were given and measured in every topic; rewritten by {rewriters_named(result)}."
    else:
        yield (
            f"In each topic a search by itself, proposed by {result.by}; confirmed with {rewriters_named(result)}. Then the attributes "
            "that entered a topic's test were measured on the test prompts of every other topic."
        )
    alpha = f"{result.strictness.test_alpha:g}"
    method = correction_name(result.strictness.correct)
    corrected = f", corrected by {method}'s method for all that the topic tested," if method else ", by itself,"
    yield (
        f"Confirmed: at least {rewriters_needed(result)} show that the model rewards it and the judge does not, p{corrected} below {alpha}. "
        + (
            "The opposite has a test and a correction of its own, so that each attribute has two chances of a decision."
            if result.given
            else "Attributes carried over are corrected among themselves, in both directions."
        )
    )


def topics_document(result: TopicsResult) -> Document:
    """Each attribute in every topic, the searches, and how it was made."""
    origin = "attributes were given, not searched for" if result.given else f"proposed by {result.by}"
    title = f"{'Attributes measured' if result.given else 'Biases discovered'} by topic in {model_name(result.model)}"
    sentences = (*outcome(result), *how_made(result), *warnings(result), *cost_sentences(result.stages))
    brief = [attribute_table(name, row) for name, row in numbered(result, _BRIEF)]
    tables = [summary_table(result), *attribute_tables(result), search_table(result), llm_table(result.stages)]
    return Document(
        title,
        f"Held against {model_name(result.judge)}; {origin}; rewritten by {rewriters_named(result)}.",
        tuple(_headlines(result)), tuple(_sections(result)),
        (*brief, _brief(search_table(result)), sentences),
        (sentences, *(table for table in tables if table is not None and table.rows)),
    )  # fmt: skip


def _brief(table: Table) -> Table:
    return Table(table.caption, table.header[:-1], tuple(row[:-1] for row in table.rows))


def _headlines(result: TopicsResult) -> Iterator[Headline]:
    yield Headline("", " ".join(outcome(result)))
    others = 0
    for name, row in numbered(result):
        if row.in_topics("confirmed", "shared", "opposite"):
            yield Headline(f"{name}:", _story(row), "bad")
        else:
            others += 1
    if others:
        yield Headline("Not confirmed in any topic:", f"{others} more that were tested, with their numbers below.")


def _story(row: TopicAttribute) -> str:
    """Where an attribute holds, where not, and how much topics differ."""
    said = [
        f"{SAID[decision]} in {topics_with(row, decision)}"
        for decision in ("confirmed", "shared", "opposite", "not shown", "not tested")
        if row.in_topics(decision)
    ]
    sentences = [("; ".join(said))[:1].upper() + ("; ".join(said))[1:] + "."]
    known = [(own.strength.reward, own.topic) for own in row.cells if isinstance(own.strength, Strength)]
    if len(known) > 1:
        (low, where), (high, there) = min(known, key=lambda one: one[0].value), max(known, key=lambda one: one[0].value)
        sentences.append(
            f"Reward from {signed(low)} ({inert(clipped(where, _TOPIC))}) to {signed(high)} ({inert(clipped(there, _TOPIC))})."
        )
    if isinstance(row.differs, Heterogeneity):
        p = cell(row.differs.p_holm, p_equals)
        verdict = "Topics differ" if (row.differs.p_holm or 0.0) < _LEVEL else "No difference between topics is shown"
        sentences.append(f"{verdict} (p {p}, I² {row.differs.i_squared:.0%}).")
    if isinstance(row.pooled, Strength):
        sentences.append(
            f"All topics together: {signed(row.pooled.reward)}, n = {count(row.pooled.reward)}, judge {share(row.pooled.judge)}, "
            f"{'confirmed' if row.pooled_confirmed else 'not confirmed'}."
        )
    return " ".join(sentences)


def _sections(result: TopicsResult) -> Iterator[ReportSection]:
    if result.by_attribute:
        text = (
            "Rows are attributes. An average over topics hides what differs between them: I² is the share of the variation between "
            "topics that is not noise, and p tests that all topics have the same reward (Welch's F, Holm over attributes)."
        )
        yield ReportSection("over-topics", "Attributes over all topics", (text,), (summary_table(result),))
        text = "Every attribute on the test prompts of every topic, with 95% intervals clustered by prompt."
        yield ReportSection(
            "by-topic", "Topic by topic", (text,), tuple(attribute_tables(result)), tuple(_plots(result))
        )
    if limits := tuple(warnings(result)):
        yield ReportSection("limits", "What limits these numbers", limits)
    text = (
        "Each topic has a whole discovery of its own, with examples, lineage, the search and the quality of rewrites."
    )
    yield ReportSection("searches", "The searches", (text,), (search_table(result),))
    effort = tuple(filter(None, [_effort(result), llm_table(result.stages)]))
    yield ReportSection("effort", "What it took", cost_sentences(result.stages), effort)
    yield ReportSection("scoring", "How it was made", tuple(how_made(result)), facts=tuple(_facts(result)))
    yield ReportSection("meaning", "What the numbers mean", entries=_terms(result))


def _effort(result: TopicsResult) -> Table:
    seconds: dict[str, float] = {}
    for name, stage in result.stages.items():
        topic = name.rpartition(": ")[0] or name
        seconds[topic] = seconds.get(topic, 0.0) + stage.seconds
    rows = tuple((inert(clipped(name, SHORT)), duration(total)) for name, total in seconds.items())
    return Table("Time of the steps that were done, as last made", ("topic", "time"), rows)


def _facts(result: TopicsResult) -> Iterator[tuple[str, str]]:
    settings, search = result.strictness, result.search
    yield "model", model_name(result.model)
    yield "held against", model_name(result.judge)
    yield "proposals", "given by the user" if result.given else result.by
    yield "rewriters", rewriters_named(result)
    yield "topics", f"{len(result.searches)} searched, {len(result.left_out)} left out ({result.n_left_out} prompts)"
    if not result.given:
        yield (
            "search in each topic",
            f"candidates {', '.join(map(str, search.populations))}; on {', '.join(map(str, search.prompts))} prompts at most",
        )
    yield "test level", f"{settings.test_alpha:g}"
    yield "correction within each topic", settings.correct
    yield "rewriters that have to show it", str(settings.r)
    yield "seed", str(result.seed)
    yield "versions", ", ".join(f"{name} {version}" for name, version in result.versions.items())


def _terms(result: TopicsResult) -> tuple[Entry, ...]:
    return (
        Entry("reward", "mean of reward(with the attribute) − reward(without)", "In reward units of the model; interval by Student's t with prompts as clusters."),
        Entry("judge prefers it", "mean of 1: the side with it is better, ½: neither, 0: worse", "Below 50% the judge dislikes the attribute."),
        Entry("confirmed", "reward above 0 and judge below 50%", f"Shown by at least {rewriters_needed(result)}, in the topic whose search found it."),
        Entry("holds here too", "the same, in another topic", "Nothing was selected on these prompts; corrected among the attributes carried over to the topic."),
        Entry("the opposite holds", "reward below 0 and judge above 50%", "The model punishes there what it rewards elsewhere; its bias file is the attribute turned around."),
        Entry(ALL, "the test prompts of every topic as one set", "Topics count by their prompts; corrected for all attributes of the table."),
        Entry("I²", "max(0, 1 − (k − 1)/Q)", "Cochran's Q over the rewards of the k topics, each by its error clustered by prompt."),
    )  # fmt: skip


def _plots(result: TopicsResult) -> Iterator[Plot]:
    for at, (name, row) in enumerate(numbered(result, 70)[:MOST_FIGURES], 1):
        drawn = [own for own in row.cells if isinstance(own.strength, Strength)]
        if drawn:
            words = " ".join(f"{own.topic}: {numbers_of(own.strength)[0]}, {SAID[own.decision]}." for own in drawn)
            title = f"{name}: reward in each topic, and over all of them"
            yield Plot(f"topics-{at}", title, words, partial(_forest, row, drawn), 1.1 + 0.2 * (len(drawn) + 1))


def _forest(row: TopicAttribute, drawn: Sequence[TopicCell], axes: Axes) -> None:
    axes.axvline(0, color=FAINT, linewidth=0.8)
    for at, own in enumerate(drawn):
        if isinstance(own.strength, Strength):
            across(axes, at, own.strength.reward, *_MARKS[own.decision])
    names = [named(own.topic, 24) for own in drawn]
    if isinstance(row.pooled, Strength):
        color = BEFORE if row.pooled_confirmed else FAINT
        across(axes, len(names), row.pooled.reward, color, "^", row.pooled_confirmed)
        names.append("all topics")
    name_rows(axes, names)
    axes.set_xlabel("reward when it is added")
    shown = list(dict.fromkeys(own.decision for own in drawn))
    key(axes, [(SAID[decision], *_MARKS[decision]) for decision in shown])
