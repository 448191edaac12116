"""The result of a human study as a page and for a terminal, from its JSON alone."""

from __future__ import annotations

from functools import partial

from cda.inert import clipped, inert
from cda.report.numbers import NOT_ESTIMATED, count, decimals, p_value, share
from cda.report.page import Headline, Page, Section
from cda.report.plots import AFTER, PAGE_INCHES, SHARE_LIMITS, Mark, Plot, Row, Scale, draw_rows, named, rows_height
from cda.report.tables import Table, plain_table
from cda.results.base import Estimate, Missing
from cda.results.skew import Agreement, Leading
from cda.results.study import Participant, Position, StudyGroup, StudyItem, StudyResult
from cda.stats.votes import WORDS

_PROMPT_COLUMNS = 90
_MOST_DRAWN = 40
_MAJORITIES = {"perturbed": "with the bias", "base": "without the bias", "tie": "no difference"}
_WORDS: tuple[Leading, ...] = (*WORDS, "split")
_MANY = 12
"""Items with missing judgements that a terminal lists."""


def study_page(result: StudyResult) -> Page:
    """What a study found; votes, participants and items in tables."""
    n = result.n_items
    return Page(
        f"What people preferred: {n} pairs",
        f"Study {result.study}, {result.kind}, {result.judgements_wanted} judgements wanted on each pair",
        tuple(findings(result)),
        (
            Section("biases", "Preferences and agreement", (_HUMAN_SKEW,), (bias_table(result),)),
            Section("people", "Participants", _people_words(result), (participant_table(result),), _plots(result)),
            Section("left-out", "What was left out", ("Every answer that did not become a vote, and why.",),
                    (left_out_table(result),)),
            Section("missing", "Pairs that lack judgements", (_missing_words(result),), tuple(_missing_tables(result))),
            Section("items", "Every pair", ("Votes on each pair, the least agreed on first.",), (item_table(result),)),
        ),
    )  # fmt: skip


_HUMAN_SKEW = (
    "Human skew is the share of pairs on which most people prefer the side with the bias; pairs on which most see no "
    "difference or which are split are left out of it. Agreement is Krippendorff's alpha (1: everybody agrees, 0: as by "
    "chance) on pairs with two votes or more, no difference being an answer like the others. Intervals are 95% intervals, "
    "with prompts as clusters."
)


def findings(result: StudyResult) -> list[Headline]:
    """Sentences of the first screen."""
    found = [Headline("Votes", _votes_sentence(result))]
    for name, one in result.biases.items():
        skew = one.skew
        found.append(Headline(name, f"People prefer the side with the bias on {share(skew)} of pairs with a majority for a side "
                                   f"(n = {count(skew)})." if isinstance(skew, Estimate) else f"human skew {NOT_ESTIMATED}: {skew.reason}."))  # fmt: skip
    agreed = result.all.agreement
    if isinstance(agreed, Agreement):
        alpha, top = agreed.alpha, agreed.majority_share
        first = f"no alpha ({alpha.reason})" if isinstance(alpha, Missing) else f"alpha {decimals(alpha)}"
        found.append(
            Headline(
                "Agreement",
                f"{first}; {share(top)} of a pair's votes are for its most frequent answer, from {agreed.n_votes} votes on "
                f"pairs with two or more (n = {count(top)}).",
            )
        )
    else:
        found.append(Headline("Agreement", f"{NOT_ESTIMATED}: {agreed.reason}."))
    if result.position:
        found.append(_position_finding(result.position))
    out = [one.participant for one in result.participants if not one.attention.passed]
    if out:
        found.append(Headline("Attention", f"{len(out)} of {len(result.participants)} participants failed and are left out: "
                                          f"{', '.join(out)}.", "bad"))  # fmt: skip
    lacking = _lacking(result)
    if lacking:
        n = sum(one.missing for one in lacking)
        found.append(Headline("Missing", f"{n} judgements on {len(lacking)} of {result.n_items} pairs.", "bad"))
    return found


def _votes_sentence(result: StudyResult) -> str:
    time = result.time
    spent = (
        f" Median time {time.median_s:.0f} s, {time.n_fast} of {time.n_known} below {time.fast_s:g} s."
        if time.median_s is not None
        else ""
    )
    return (
        f"{result.n_votes} votes of {_n_voters(result)} participants on {result.all.n_voted} of {result.n_items} "
        f"pairs; {sum(result.exclusions.reasons.values())} of {result.exclusions.seen} answers left out.{spent}"
    )


def _n_voters(result: StudyResult) -> int:
    return sum(one.votes > 0 for one in result.participants)


def _position_finding(position: Position) -> Headline:
    one = position.share_a
    leans = position.p_value < 0.05
    words = "more often than chance explains" if leans else "no sign that the position mattered"
    text = f"A was chosen on {share(one)} of {one.n} choices of a side (one half: p {_p(position.p_value)}): {words}. The interval takes choices of one item together, not those of one participant."
    if leans:
        text = text.replace("more often", "more often" if one.value > 0.5 else "less often")
    return Headline("Position", text, "bad" if leans else "none")


def _p(value: float) -> str:
    shown = p_value(value)
    return shown if shown.startswith("<") else f"= {shown}"


def bias_table(result: StudyResult) -> Table:
    """A row a bias, and one for all where there are several."""
    groups = result.biases | ({"all": result.all} if len(result.biases) > 1 else {})
    header = ("bias", "pairs voted on", "votes: with / without / no difference", "majorities: with / without / no difference / split",
              "human skew", "n", "alpha", "votes for the majority")  # fmt: skip
    return Table("Votes on each bias", header, tuple((name, *_bias_cells(one)) for name, one in groups.items()))


def _bias_cells(one: StudyGroup) -> tuple[str, ...]:
    agreed = one.agreement
    alpha = agreed if isinstance(agreed, Missing) else agreed.alpha
    return (
        f"{one.n_voted} of {one.n_items}",
        " / ".join(str(one.votes[word]) for word in WORDS),
        " / ".join(str(one.majorities.get(word, 0)) for word in _WORDS),
        share(one.skew) if isinstance(one.skew, Estimate) else NOT_ESTIMATED,
        count(one.skew) if isinstance(one.skew, Estimate) else "",
        decimals(alpha) if isinstance(alpha, Estimate) else NOT_ESTIMATED,
        share(agreed.majority_share) if isinstance(agreed, Agreement) else NOT_ESTIMATED,
    )


def participant_table(result: StudyResult) -> Table:
    """A row a participant, those who differ most first."""
    header = ("participant", "votes", "no difference", "chose A", "differs from the others' majority", "n", "median time",
              "fast", "checks right", "counted")  # fmt: skip
    return Table("Who voted, and how", header, tuple(map(_participant_cells, _most_different(result))))


def _participant_cells(one: Participant) -> tuple[str, ...]:
    given = f" of {one.given}" if one.given else ""
    attention, differs = one.attention, one.disagrees
    return (
        one.participant,
        f"{one.votes}{given}",
        str(one.ties),
        f"{one.a} of {one.votes - one.ties}",
        share(differs) if differs else NOT_ESTIMATED,
        str(differs.n) if differs else "",
        f"{one.median_s:.0f} s" if one.median_s is not None else "unknown",
        str(one.n_fast),
        f"{attention.right} of {attention.answered}" if attention.answered else "none given",
        "yes" if attention.passed else "no: failed the attention checks",
    )


def _people_words(result: StudyResult) -> tuple[str, ...]:
    texts = [
        "How often a participant's vote differs from what most of the others said of the same pair; pairs on which the others "
        "have no majority are left out. Somebody who differs often may be careless, or right where the others are not."
    ]
    if result.silent:
        texts.append(f"Nothing came back from {', '.join(result.silent)}.")
    if result.kind == "experts":
        n = sum(one.votes - one.justified for one in result.participants)
        texts.append(f"{n} of {result.n_votes} votes lack the reason that experts are asked for.")
    return tuple(texts)


def _plots(result: StudyResult) -> tuple[Plot, ...]:
    rows = [(one.participant, one.disagrees) for one in _most_different(result) if one.disagrees]
    if len(rows) < 2:
        return ()
    drawn = rows[:_MOST_DRAWN]
    told = "; ".join(f"{name} {share(one)}, n = {one.n}" for name, one in drawn)
    title = "Share of votes that differ from the others' majority, with 95% intervals"
    if len(drawn) < len(rows):
        title += f" (the {len(drawn)} of {len(rows)} participants who differ most)"
    draw = partial(
        draw_rows,
        rows=[Row(named(name, 24), (one,)) for name, one in drawn],
        marks=[Mark("difference", AFTER, "o")],
        scale=Scale("votes that differ from the others' majority (%)", is_share=True, limits=SHARE_LIMITS),
    )
    return (Plot("disagreement", title, told, draw, rows_height(len(drawn), 1), PAGE_INCHES),)


def _most_different(result: StudyResult) -> list[Participant]:
    """Participants, those who differ most from the others first."""
    return sorted(result.participants, key=lambda one: -one.disagrees.value if one.disagrees else 1.0)


def left_out_table(result: StudyResult) -> Table:
    """Reasons with their counts; what is no vote by its nature stands apart."""
    reasons = result.exclusions.reasons
    rows = [(reason, str(n)) for reason, n in sorted(reasons.items(), key=lambda one: -one[1])] or [("nothing", "0")]
    rows += [("answers to attention checks (no votes)", str(result.n_check_answers))]
    rows += [("rows of tables that are not filled", str(result.n_blank))] if result.n_blank else []
    return Table(f"Of {result.exclusions.seen} answers that came back", ("answers", "count"), tuple(rows))


def _lacking(result: StudyResult) -> list[StudyItem]:
    return sorted((one for one in result.items if one.missing), key=lambda one: (-one.missing, one.item))


def _missing_words(result: StudyResult) -> str:
    lacking = _lacking(result)
    if not lacking:
        return f"None: each of {result.n_items} pairs has the {result.judgements_wanted} judgements wanted or more."
    return f"{len(lacking)} of {result.n_items} pairs have fewer than the {result.judgements_wanted} judgements wanted."


def _missing_tables(result: StudyResult) -> list[Table]:
    """A row for each number of judgements that is missing, with the pairs that miss so many."""
    lacking = _lacking(result)
    numbers = sorted({one.missing for one in lacking}, reverse=True)
    ids = {n: [one.id for one in lacking if one.missing == n] for n in numbers}
    rows = tuple((str(n), str(len(ids[n])), ", ".join(ids[n])) for n in numbers)
    return [Table("Judgements still wanted", ("missing", "pairs", "ids"), rows)] if rows else []


def item_table(result: StudyResult) -> Table:
    """Votes on each pair, the most divided first."""
    rows = sorted(result.items, key=lambda one: (_top_share(one), one.item))
    header = ("id", "bias", "prompt", "with", "without", "no difference", "majority")
    return Table("Votes on each pair", header, tuple(map(_item_cells, rows)))


def _top_share(one: StudyItem) -> float:
    votes = one.votes.values()
    return max(votes) / sum(votes) if sum(votes) else 2.0


def _item_cells(one: StudyItem) -> tuple[str, ...]:
    return (
        one.id, one.bias, clipped(inert(one.prompt), _PROMPT_COLUMNS),
        *(str(one.votes[word]) for word in WORDS), _MAJORITIES.get(one.majority, one.majority),
    )  # fmt: skip


def study_text(result: StudyResult) -> str:
    """The same for a terminal: findings, participants, what was left out, what is missing."""
    lines = [f"{one.name}: {one.text}" for one in findings(result)]
    lines += ["", plain_table(participant_table(result)), "", plain_table(left_out_table(result))]
    lacking = _lacking(result)
    if lacking:
        names = ", ".join(f"{one.id} ({one.missing})" for one in lacking[:_MANY])
        more = f" and {len(lacking) - _MANY} more" if len(lacking) > _MANY else ""
        lines += ["", f"Pairs that lack judgements: {names}{more}"]
    return "\n".join("\n".join(map(inert, line.split("\n"))) for line in lines)
