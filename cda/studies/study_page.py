"""The page of a study: what people preferred, how far they agree, who took part, and what was left out."""

from __future__ import annotations

from collections.abc import Iterator

from cda.records import PERCENT
from cda.report.document import Document
from cda.report.glance import Cell, Chip, Glance, GlanceRow, Series, marked, percent_axis
from cda.report.names import some
from cda.report.numbers import MINUS, NOT_ESTIMATED, cell, count, decimals, p_equals, share
from cda.report.page import Headline, ReportSection
from cda.report.tables import Table
from cda.results.base import Estimate, Missing
from cda.results.skew import Agreement, Leading
from cda.results.study import Participant, StudyGroup, StudyResult
from cda.stats.votes import WORDS

LEADING: tuple[Leading, ...] = (*WORDS, "split")
_MANY = 12  # items with missing judgements that a terminal lists
_HUMAN_SKEW = (
    "Human skew is the share of pairs on which most people prefer the side with the bias; pairs on which most see no "
    "difference or which are split are left out of it. Agreement is Krippendorff's alpha (1: everybody agrees, 0: as by "
    f"chance) on pairs with two votes or more, no difference being an answer like the others. Intervals are {PERCENT} intervals, "
    "with prompts as clusters."
)
_DIFFERS = (
    "How often a participant's vote differs from what most of the others said of the same pair; pairs on which the others "
    "have no majority are left out. Somebody who differs often may be careless, or right where the others are not."
)


def study_document(result: StudyResult) -> Document:
    """Votes, agreement and participants of a study, and what was left out; every pair is in the JSON file."""
    people = [f"Nothing came back from {', '.join(result.silent)}."] if result.silent else []
    if result.kind == "experts":
        n = sum(person.votes - person.justified for person in result.participants)
        people.append(f"{n} of {result.n_votes} votes lack the reason that experts are asked for.")
    who = "Experts were asked" if result.kind == "experts" else "A crowd was asked"
    asked = f"{who}; {result.judgements_wanted} judgements wanted on each pair."
    said = list(_headlines(result))
    notes, findings = (tuple(each for each in said if (each.kind == "bad") == bad) for bad in (True, False))
    return Document(f"What people preferred: {result.n_items} pairs", asked, findings, (
        ReportSection("biases", "Preferences and agreement", (_HUMAN_SKEW,), (_bias_table(result),)),
        ReportSection("people", "Participants", (_DIFFERS,), (participant_table(result),), sentences=tuple(people)),
        ReportSection("left-out", "What was left out", (), (left_out_table(result),)),
    ), headline=_headline(result), glance=_glance(result), notes=notes)  # fmt: skip


_PEOPLE = Series("people", "people, on pairs with a majority for a side")
_CHIPS = {
    "prefer": Chip("preferred", "none", "▲"), "do not prefer": Chip("not preferred", "none", "▽"), "": Chip("not shown", "none", "?"),
}  # fmt: skip


def _side(group: StudyGroup) -> str:
    """Which side most people prefer, by the interval of human skew; empty if neither is shown."""
    if isinstance(group.skew, Missing):
        return ""
    return "prefer" if group.skew.low > 0.5 else "do not prefer" if group.skew.high < 0.5 else ""


def _headline(result: StudyResult) -> str:
    """What people prefer, and how far they agree, in one sentence."""
    said = {
        "prefer": "prefer answers with {}",
        "do not prefer": "prefer answers without {}",
        "": "are not shown to mind {}",
    }
    parts = []
    for side, words in said.items():
        names = [name for name, group in result.biases.items() if _side(group) == side]
        skew = result.biases[names[0]].skew if len(names) == 1 else None
        shown = f" ({share(skew)} with it)" if isinstance(skew, Estimate) else ""
        parts += [words.format(some(names)) + shown] if names else []
    agreed = result.all.agreement
    alpha = None if isinstance(agreed, Missing) or isinstance(agreed.alpha, Missing) else agreed.alpha
    end = f", and agree with each other at alpha {alpha.value:.2f}".replace("-", MINUS) if alpha else ""
    return f"People {', '.join(parts)}{end}." if parts else "No pair was judged."


def _glance(result: StudyResult) -> Glance:
    rows = []
    for name, group in result.biases.items():
        clause = f"{group.n_voted} of {group.n_items} pairs voted on"
        clause += "" if isinstance(group.skew, Missing) else f", {count(group.skew)} with a majority"
        instead = group.skew.reason if isinstance(group.skew, Missing) else ""
        rows.append(GlanceRow(name, (Cell(_CHIPS[_side(group)], marked(_PEOPLE, group.skew), instead),), clause))
    return Glance(
        caption="How often people prefer the answer with the bias.", heading="bias", axis=percent_axis("share of pairs"),
        rows=tuple(rows), reading=(_HUMAN_SKEW, "Preferred or not: the interval lies on that side of 50%, the dashed line."),
    )  # fmt: skip


def _headlines(result: StudyResult) -> Iterator[Headline]:
    time, n_voters = result.time, sum(person.votes > 0 for person in result.participants)
    spent = ""
    if time.median_s is not None:
        spent = f" Median time {time.median_s:.0f} s, {time.n_fast} of {time.n_known} below {time.fast_s:g} s."
    yield Headline(
        "Votes:",
        f"{result.n_votes} votes of {n_voters} participants on {result.all.n_voted} of {result.n_items} "
        f"pairs; {sum(result.exclusions.reasons.values())} of {result.exclusions.seen} answers left out.{spent}",
    )
    for name, group in result.biases.items():
        if isinstance(group.skew, Missing):
            yield Headline(f"{name}:", f"human skew {NOT_ESTIMATED}: {group.skew.reason}.")
        else:
            prefer = f"People prefer the side with the bias on {share(group.skew)} of pairs with a majority for a side"
            yield Headline(f"{name}:", f"{prefer} (n = {count(group.skew)}).")
    yield Headline("Agreement:", _agreement_sentence(result.all.agreement))
    if result.position:
        of_a, leans = result.position.share_a, result.position.p_value < 0.05
        text = f"A was chosen on {share(of_a)} of {of_a.n} choices of a side; one half: p {p_equals(result.position.p_value)}."
        yield Headline("Position:", text, "bad" if leans else "none")
    failed = [person.participant for person in result.participants if not person.attention.passed]
    if failed:
        of = f"{len(failed)} of {len(result.participants)} participants failed and are left out"
        yield Headline("Attention:", f"{of}: {', '.join(failed)}.", "bad")
    if lacking := sorted((item for item in result.items if item.missing), key=lambda item: (-item.missing, item.item)):
        names = ", ".join(f"{item.id} ({item.missing})" for item in lacking[:_MANY])
        more = f" and {len(lacking) - _MANY} more" if len(lacking) > _MANY else ""
        n = sum(item.missing for item in lacking)
        yield Headline("Missing:", f"{n} judgements on {len(lacking)} of {result.n_items} pairs.", "bad")
        yield Headline("Judgements missing, by pair:", f"{names}{more}.")


def _agreement_sentence(agreed: Agreement | Missing) -> str:
    if isinstance(agreed, Missing):
        return f"{NOT_ESTIMATED}: {agreed.reason}."
    alpha, top = agreed.alpha, agreed.majority_share
    first = f"no alpha ({alpha.reason})" if isinstance(alpha, Missing) else f"alpha {decimals(alpha)}"
    return f"{first}; {share(top)} of a pair's votes are for its most frequent answer (n = {count(top)})."


def _bias_table(result: StudyResult) -> Table:
    groups = result.biases | ({"all": result.all} if len(result.biases) > 1 else {})
    header = ("bias", "pairs voted on", "votes: with / without / no difference", "majorities: with / without / no difference / split",
              "human skew", "n", "alpha", "votes for the majority")  # fmt: skip
    rows = []
    for name, group in groups.items():
        skew, agreed = group.skew, group.agreement
        alpha = agreed if isinstance(agreed, Missing) else agreed.alpha
        rows.append((
            name,
            f"{group.n_voted} of {group.n_items}",
            " / ".join(str(group.votes[word]) for word in WORDS),
            " / ".join(str(group.majorities.get(word, 0)) for word in LEADING),
            cell(skew, share),
            cell(skew, count, ""),
            cell(alpha, decimals),
            cell(agreed, lambda found: share(found.majority_share)),
        ))  # fmt: skip
    return Table("Votes on each bias", header, tuple(rows))


def participant_table(result: StudyResult) -> Table:
    """A row per participant, those who differ most first."""
    header = ("participant", "votes", "no difference", "chose A", "differs from the others' majority", "n", "median time",
              "fast", "checks right", "counted")  # fmt: skip
    rows = []
    for person in _most_different(result):
        attention, differs = person.attention, person.disagrees
        rows.append((
            person.participant,
            f"{person.votes} of {person.given}" if person.given else f"{person.votes}",
            str(person.ties),
            f"{person.a} of {person.votes - person.ties}",
            *((share(differs), str(differs.n)) if differs else (NOT_ESTIMATED, "")),
            f"{person.median_s:.0f} s" if person.median_s is not None else "unknown",
            str(person.n_fast),
            f"{attention.right} of {attention.answered}" if attention.answered else "none given",
            "yes" if attention.passed else "no: failed the attention checks",
        ))  # fmt: skip
    return Table("Who voted, and how", header, tuple(rows))


def _most_different(result: StudyResult) -> list[Participant]:
    return sorted(result.participants, key=lambda person: -person.disagrees.value if person.disagrees else 1.0)


def left_out_table(result: StudyResult) -> Table:
    """Reasons with their counts; answers that are not meant as votes are listed separately."""
    reasons = sorted(result.exclusions.reasons.items(), key=lambda reason: -reason[1])
    rows = [(reason, str(n)) for reason, n in reasons] or [("nothing", "0")]
    rows += [("answers to attention checks (no votes)", str(result.n_check_answers))]
    rows += [("rows of tables that are not filled", str(result.n_blank))] if result.n_blank else []
    return Table(f"Of {result.exclusions.seen} answers that came back", ("answers", "count"), tuple(rows))
