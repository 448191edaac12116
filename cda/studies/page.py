"""The result of a human study as a page and for a terminal, from its JSON alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby

from cda.inert import clipped, inert
from cda.report.numbers import NOT_ESTIMATED, count, decimals, p_value, share
from cda.report.page import Headline, Page, ReportSection
from cda.report.plots import AFTER, PAGE_INCHES, SHARE_LIMITS, Mark, Plot, Row, Scale, draw_rows, named, rows_height
from cda.report.tables import Table, plain_table
from cda.results.base import Missing
from cda.results.skew import Agreement, Leading
from cda.results.study import Participant, Position, StudyItem, StudyResult
from cda.stats.votes import WORDS

_PROMPT_COLUMNS = 90
_MOST_DRAWN = 40
_MAJORITIES = {"perturbed": "with the bias", "base": "without the bias", "tie": "no difference"}
LEADING: tuple[Leading, ...] = (*WORDS, "split")
_MANY = 12  # items with missing judgements that a terminal lists
_HUMAN_SKEW = (
    "Human skew is the share of pairs on which most people prefer the side with the bias; pairs on which most see no "
    "difference or which are split are left out of it. Agreement is Krippendorff's alpha (1: everybody agrees, 0: as by "
    "chance) on pairs with two votes or more, no difference being an answer like the others. Intervals are 95% intervals, "
    "with prompts as clusters."
)
_DIFFERS = (
    "How often a participant's vote differs from what most of the others said of the same pair; pairs on which the others "
    "have no majority are left out. Somebody who differs often may be careless, or right where the others are not."
)


def study_page(result: StudyResult) -> Page:
    """Votes, participants and items of a study in tables."""
    lacking, people = _lacking(result), [_DIFFERS]
    if result.silent:
        people.append(f"Nothing came back from {', '.join(result.silent)}.")
    if result.kind == "experts":
        n = sum(person.votes - person.justified for person in result.participants)
        people.append(f"{n} of {result.n_votes} votes lack the reason that experts are asked for.")
    wanted = f"the {result.judgements_wanted} judgements wanted"
    missing = f"{len(lacking)} of {result.n_items} pairs have fewer than {wanted}."
    if not lacking:
        missing = f"None: each of {result.n_items} pairs has {wanted} or more."
    left_out = ("Every answer that did not become a vote, and why.",)
    divided = ("Votes on each pair, the least agreed on first.",)
    return Page(
        f"What people preferred: {result.n_items} pairs",
        f"Study {result.study}, {result.kind}, {result.judgements_wanted} judgements wanted on each pair",
        tuple(_headlines(result)),
        (
            ReportSection("biases", "Preferences and agreement", (_HUMAN_SKEW,), (_bias_table(result),)),
            ReportSection("people", "Participants", tuple(people), (participant_table(result),), _plots(result)),
            ReportSection("left-out", "What was left out", left_out, (left_out_table(result),)),
            ReportSection("missing", "Pairs that lack judgements", (missing,), _missing_tables(lacking)),
            ReportSection("items", "Every pair", divided, (_item_table(result),)),
        ),
    )


def study_text(result: StudyResult) -> str:
    """The same for a terminal: first screen, participants, exclusions, missing judgements."""
    lines = [f"{headline.name}: {headline.text}" for headline in _headlines(result)]
    lines += ["", plain_table(participant_table(result)), "", plain_table(left_out_table(result))]
    if lacking := _lacking(result):
        names = ", ".join(f"{item.id} ({item.missing})" for item in lacking[:_MANY])
        more = f" and {len(lacking) - _MANY} more" if len(lacking) > _MANY else ""
        lines += ["", f"Pairs that lack judgements: {names}{more}"]
    return "\n".join("\n".join(map(inert, line.split("\n"))) for line in lines)


def _headlines(result: StudyResult) -> Iterator[Headline]:
    time, n_voters = result.time, sum(person.votes > 0 for person in result.participants)
    spent = ""
    if time.median_s is not None:
        spent = f" Median time {time.median_s:.0f} s, {time.n_fast} of {time.n_known} below {time.fast_s:g} s."
    yield Headline(
        "Votes",
        f"{result.n_votes} votes of {n_voters} participants on {result.all.n_voted} of {result.n_items} "
        f"pairs; {sum(result.exclusions.reasons.values())} of {result.exclusions.seen} answers left out.{spent}",
    )
    for name, group in result.biases.items():
        if isinstance(group.skew, Missing):
            yield Headline(name, f"human skew {NOT_ESTIMATED}: {group.skew.reason}.")
        else:
            prefer = f"People prefer the side with the bias on {share(group.skew)} of pairs with a majority for a side"
            yield Headline(name, f"{prefer} (n = {count(group.skew)}).")
    yield Headline("Agreement", _agreement_sentence(result.all.agreement))
    if result.position:
        yield _position_headline(result.position)
    failed = [person.participant for person in result.participants if not person.attention.passed]
    if failed:
        of = f"{len(failed)} of {len(result.participants)} participants failed and are left out"
        yield Headline("Attention", f"{of}: {', '.join(failed)}.", "bad")
    if lacking := _lacking(result):
        n = sum(item.missing for item in lacking)
        yield Headline("Missing", f"{n} judgements on {len(lacking)} of {result.n_items} pairs.", "bad")


def _agreement_sentence(agreed: Agreement | Missing) -> str:
    if isinstance(agreed, Missing):
        return f"{NOT_ESTIMATED}: {agreed.reason}."
    alpha, top = agreed.alpha, agreed.majority_share
    first = f"no alpha ({alpha.reason})" if isinstance(alpha, Missing) else f"alpha {decimals(alpha)}"
    return (
        f"{first}; {share(top)} of a pair's votes are for its most frequent answer, from {agreed.n_votes} votes on pairs with two "
        f"or more (n = {count(top)})."
    )


def _position_headline(position: Position) -> Headline:
    of_a, p = position.share_a, p_value(position.p_value)
    leans, direction = position.p_value < 0.05, "more" if of_a.value > 0.5 else "less"
    words = f"{direction} often than chance explains" if leans else "no sign that the position mattered"
    text = (
        f"A was chosen on {share(of_a)} of {of_a.n} choices of a side (one half: p {p if p.startswith('<') else f'= {p}'}): "
        f"{words}. The interval takes choices of one item together, not those of one participant."
    )
    return Headline("Position", text, "bad" if leans else "none")


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
            *((NOT_ESTIMATED, "") if isinstance(skew, Missing) else (share(skew), count(skew))),
            NOT_ESTIMATED if isinstance(alpha, Missing) else decimals(alpha),
            NOT_ESTIMATED if isinstance(agreed, Missing) else share(agreed.majority_share),
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


def _plots(result: StudyResult) -> tuple[Plot, ...]:
    rows = [(person.participant, person.disagrees) for person in _most_different(result) if person.disagrees]
    if len(rows) < 2:
        return ()
    drawn = rows[:_MOST_DRAWN]
    words = "; ".join(f"{name} {share(differs)}, n = {differs.n}" for name, differs in drawn)
    title = "Share of votes that differ from the others' majority, with 95% intervals"
    if len(drawn) < len(rows):
        title += f" (the {len(drawn)} of {len(rows)} participants who differ most)"
    draw = partial(
        draw_rows,
        rows=[Row(named(name, 24), (differs,)) for name, differs in drawn],
        marks=[Mark("difference", AFTER, "o")],
        scale=Scale("votes that differ from the others' majority (%)", is_share=True, limits=SHARE_LIMITS),
    )
    return (Plot("disagreement", title, words, draw, rows_height(len(drawn), 1), PAGE_INCHES),)


def _most_different(result: StudyResult) -> list[Participant]:
    return sorted(result.participants, key=lambda person: -person.disagrees.value if person.disagrees else 1.0)


def left_out_table(result: StudyResult) -> Table:
    """Reasons with their counts; answers that are not meant as votes are listed separately."""
    reasons = sorted(result.exclusions.reasons.items(), key=lambda reason: -reason[1])
    rows = [(reason, str(n)) for reason, n in reasons] or [("nothing", "0")]
    rows += [("answers to attention checks (no votes)", str(result.n_check_answers))]
    rows += [("rows of tables that are not filled", str(result.n_blank))] if result.n_blank else []
    return Table(f"Of {result.exclusions.seen} answers that came back", ("answers", "count"), tuple(rows))


def _lacking(result: StudyResult) -> list[StudyItem]:
    return sorted((item for item in result.items if item.missing), key=lambda item: (-item.missing, item.item))


def _missing_tables(lacking: Sequence[StudyItem]) -> tuple[Table, ...]:
    """A row for each number of judgements that is missing, with the pairs that miss so many; `lacking` is in that order."""
    groups = [(n, [item.id for item in own]) for n, own in groupby(lacking, key=lambda item: item.missing)]
    rows = tuple((str(n), str(len(ids)), ", ".join(ids)) for n, ids in groups)
    return (Table("Judgements still wanted", ("missing", "pairs", "ids"), rows),) if rows else ()


def _item_table(result: StudyResult) -> Table:
    def top_share(item: StudyItem) -> float:
        votes = item.votes.values()
        return max(votes) / sum(votes) if sum(votes) else 2.0

    header = ("id", "bias", "prompt", "with", "without", "no difference", "majority")
    rows = tuple(
        (
            item.id, item.bias, clipped(inert(item.prompt), _PROMPT_COLUMNS),
            *(str(item.votes[word]) for word in WORDS), _MAJORITIES.get(item.majority, item.majority),
        )
        for item in sorted(result.items, key=lambda item: (top_share(item), item.item))
    )  # fmt: skip
    return Table("Votes on each pair", header, rows)
