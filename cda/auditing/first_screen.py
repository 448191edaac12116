"""The first screen of an audit: a headline sentence, and for each bias a chip, two shares and a clause; for the page and, in at most
12 lines of 100 columns, for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from cda.auditing import policy, position
from cda.auditing.next_step import TOO_FEW
from cda.auditing.report_cells import applied, compares, of_mean, said, tests_named
from cda.auditing.report_scoring import caveats, how_scored
from cda.auditing.report_trainings import several_trainings, spread_line
from cda.auditing.verdict_sentences import (
    aims_at_tie,
    answers_of,
    by_rate,
    loss_of_quality,
    model_evidence,
    model_reason,
    model_word,
    n_ties,
    penalised_after,
    quality_fall,
    rate_effect,
    tied_of,
    training_word,
    worse_with,
)
from cda.embedded.texts import EMBEDDED_BIASES, SECOND_TURNS
from cda.numbers.measures import MEASURES
from cda.report.glance import MAX_HEADLINE, Cell, Glance, GlanceRow, Look, Series, headline_lines, marked, percent_axis
from cda.report.glance import Chip as Drawn
from cda.report.names import called, capital
from cda.report.numbers import cell, count, few_prompts, inert, listed, percent, ranked_right, share, signed, width
from cda.report.page import Kind
from cda.report.tables import Row, Table, aligned, broken_name
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing
from cda.results.effects import Effect, LengthBaseline
from cda.stats.verdict import MANY_TIED, TIE, TOLERATED_LOSS, Finding, Word

MAX_LINES, MAX_COLUMNS = 12, 100
_MAX_NAME = 30
_MOST_OTHERS = 3
"""Biases that were not taught which a headline names; of more it says how many, and the page their names below it."""
_LATER = {turn: bias for bias, turn in SECOND_TURNS.items()}
"""A bias in the second turn of a conversation, to that of the first."""
_QUIET = ("no change shown", "unclear", "left as it is", "not rewarded")
"""Chips whose rows go first if there are too many."""


def audit_summary(
    audit: AuditResult, report_path: str | None = None, adapter_path: str | None = None, below: int = 0
) -> str:
    """The headline, a row for each bias and for quality, what length alone prefers, paths, and the number of caveats; before these, as far
    as there is room, few prompts, the spread of several trainings, what a policy would show more of, and how it was scored. Rows of a
    model go by verdict and distance from 50%, or from people. If rows do not fit, second turns and the quietest verdicts become one
    line, with their shares, those that were asked for last; a path is never cut. A clause that is too long for its row stands there in short, or in the report alone. `below`: lines that are to follow."""
    found = bias_verdicts(audit) if compares(audit) else sorted(bias_verdicts(audit), key=_loudness)
    end = _end(audit, report_path, adapter_path)
    most, needed = MAX_LINES - below, _asked_height(found, audit)
    fixed = len(end) + 2 + len(position.of_judge(audit))  # header and quality
    with_length = any(row.length for row in found) and most - fixed - needed >= 3
    fixed += with_length
    opening = _wrapped(headline(audit), max(1, min(3, most - fixed - max(2, needed))))
    warned = [_wrapped(few_prompts(_prompts_of(audit)), 2), _wrapped(spread_line(audit), 1)]
    room = most - len(opening) - fixed
    shown, rest = _kept(found, audit, max(min(room, max(2, needed)), room - sum(map(len, warned))))
    lines = [*opening, *_table(shown, audit), *rest, *(_length_lines(shown) if with_length else ())]
    more = [*warned, _wrapped(policy.line(audit), 2), textwrap.wrap(inert(how_scored(audit)), MAX_COLUMNS)]
    for own in more:
        lines += own if len(lines) + len(own) + len(end) <= most else []
    return "\n".join([*lines, *end])


def room_below(audit: AuditResult, report_path: str | None, adapter_path: str | None) -> int:
    """Lines that may follow, if a headline of two lines, each bias that was asked for and a line for the others stand above; 1 or more."""
    found = bias_verdicts(audit)
    fixed = 4 + len(position.of_judge(audit)) + len(_end(audit, report_path, adapter_path))
    return max(1, MAX_LINES - fixed - _asked_height(found, audit))


def _asked_height(found: Sequence[BiasVerdict], audit: AuditResult) -> int:
    """Lines of the rows that were asked for, and of one for the others."""
    asked = [_height(row) for row in found if _is_asked(row, audit)]
    return sum(asked) + (len(asked) < len(found))


def _is_asked(row: BiasVerdict, audit: AuditResult) -> bool:
    """True for the targets of a training, and for biases of which a call named a few."""
    return row.target if compares(audit) else row.bias not in _LATER and not {*EMBEDDED_BIASES} <= {*audit.skew}


def _end(audit: AuditResult, report_path: str | None, adapter_path: str | None) -> list[str]:
    if adapter_path is None:
        return _where(audit, report_path)
    over = several_trainings(audit)
    seed = "" if over is None else f", of seed {over.seeds[0]}; others next to it"
    return [f"Adapter: {inert(adapter_path)} (dose {applied(audit):g}{seed})", *_where(audit, report_path)]


def _wrapped(text: str, most: int) -> list[str]:
    return textwrap.wrap(text, MAX_COLUMNS, max_lines=most, placeholder=" …", break_on_hyphens=False)


def _loudness(row: BiasVerdict) -> tuple[int, float]:
    """Sorts verdicts of a model: shown ones first, those that say nothing last, each by the distance from people, or from 50%."""
    return (row.chip in _QUIET) + 2 * row.tied, -abs(row.last.value - (row.people.value if row.people else TIE))


def _kept(found: Sequence[BiasVerdict], audit: AuditResult, room: int) -> tuple[list[BiasVerdict], list[str]]:
    """The rows that fit, in their order, and a line with the others, or two if all of them stand there then. Second turns go first, then
    the quietest verdicts, and those that were asked for last."""
    if sum(map(_height, found)) <= max(1, room):
        return list(found), []
    by_news = sorted(
        found,
        key=lambda row: (not _is_asked(row, audit), row.bias in _LATER, row.chip in _QUIET and row.after is not None),
    )
    splits = []
    for n_lines in (1, 2) if room > 2 else (1,):
        fits = sum(lines <= room - n_lines for lines in accumulate(map(_height, by_news)))
        kept = by_news[: max(room > 1, fits)]
        shown, rest = ([row for row in found if (row in kept) == is_kept] for is_kept in (True, False))
        lines = _wrapped(_rest_line(rest), n_lines)
        if not lines or not lines[-1].endswith("…"):
            return shown, lines
        splits.append((shown, rest))
    shown, rest = splits[0]
    lines = [line for n in range(len(rest)) if width(line := _rest_line(rest, n)) <= MAX_COLUMNS]
    return shown, lines[-1:]


def _height(row: BiasVerdict) -> int:
    """Lines of a row."""
    return len(broken_name((inert(row.bias),), _MAX_NAME, 2))


def _rest_line(rest: Sequence[BiasVerdict], most: int | None = None) -> str:
    """The other rows in a line: sign and share of each, or of `most`, that after a training; of a second turn the name of the first."""
    firsts, later = ([row for row in rest if (row.bias in _LATER) == second] for second in (False, True))
    parts = [_in_brief(row, inert(row.bias)) for row in firsts]
    parts += [f"{'second turn: ' * (at == 0)}{_in_brief(row, _LATER[row.bias])}" for at, row in enumerate(later)]
    shown = ", ".join(parts[:most])
    end = "" if most is None else f" and {len(rest) - most}" * bool(most) + " in the report"
    return f"{len(rest)} more{': ' * bool(shown)}{shown}{end}" if rest else ""


def _in_brief(row: BiasVerdict, name: str) -> str:
    return f"{SHAPES[row.chip]} {name}{'' if row.tied else f' {percent(row.last.value)}'}"


def _length_lines(shown: Sequence[BiasVerdict]) -> list[str]:
    """What length alone prefers, in one line, of as many of the biases as it holds, with the number of the others."""
    known = [each for each in shown if each.length]
    for n in range(len(known), 0, -1):
        line = length_line(known[:n], f"; {len(known) - n} more in the report" if n < len(known) else "")
        for form in (line, line.replace(" prefer:", ":")):
            if width(form) <= MAX_COLUMNS:
                return [form]
    return []


def _table(shown: Sequence[BiasVerdict], audit: AuditResult) -> list[str]:
    """Rows as lines, each with its clause, in full or in short, if that fits; with RATE's ATE (after a training, that after it) if it
    decides a verdict, or leaves room for the reason of every row that is unclear."""
    rated = any(row.bias in audit.rate for row in shown)
    lines, all_fit = _rows(shown, audit, rated)
    if all_fit or not rated or any(by_rate(row.bias, audit) for row in shown):
        return lines
    return _rows(shown, audit, False)[0]


def _rows(shown: Sequence[BiasVerdict], audit: AuditResult, rated: bool) -> tuple[list[str], bool]:
    """The lines, and True if the reason of every row that is unclear stands in it."""
    voted = any(row.people for row in shown)
    over = several_trainings(audit)
    when = ("before", "after" if over is None else f"mean of {len(over.seeds)}") if compares(audit) else ("preferred",)
    average = ("ATE, after" if compares(audit) else "ATE",) if rated else ()
    rows: list[Row] = [("bias", "verdict", *when, *(("people",) if voted else ()), *average, "n")]
    for row in shown:
        people = (share(row.people) if row.people else "no votes",) if voted else ()
        shares = (
            "no preference" if row.tied else share(row.before),
            *(() if row.after is None else (share(row.after),)),
        )
        verdict = f"{SHAPES[row.chip]} {row.chip}"
        effects = (_ate_cell(row.bias, audit),) if rated else ()
        rows.append((inert(row.bias), verdict, *shares, *people, *effects, str(row.last.n)))
    blank = ("",) * (voted + rated)
    rows.append(_quality_row(audit, len(when), blank))
    for key, found in position.of_judge(audit).items():
        rows.append((key, f"({MEASURES[key].shown_as['screen']})", share(found), *blank, str(found.n)))
    most = MAX_COLUMNS - 2 - max(map(width, aligned([row[1:] for row in rows])))
    fits_in_two = (at for at in range(_MAX_NAME, most) if all(len(broken_name(row, at)) < 3 for row in rows))
    longest = next(fits_in_two, max(_MAX_NAME, most))
    broken = [broken_name(row, longest, 2) for row in rows]
    lines, starts = aligned([line for row in broken for line in row]), [*accumulate(map(len, broken))]
    most, all_fit = max(map(width, lines)), True
    clauses = [(_beyond_shares(row.clause), f"; {position.kept_words(audit, row.bias)}", row.chip) for row in shown]
    for at, (clause, kept, chip) in enumerate(clauses):
        reason = clause.removesuffix(kept)
        shorter = (clause, reason, reason.partition(": ")[0], reason.rpartition("; ")[2], reason.partition("; ")[0])
        news = (text for text in shorter if not text.startswith("preferred in "))
        fits = next((text for text in news if most + 2 + width(text) <= MAX_COLUMNS), "")
        line = lines[starts[at]]
        lines[starts[at]] = f"{line}{' ' * (most - width(line))}  {fits}".rstrip()
        all_fit &= bool(fits) or chip != "unclear"
    return lines, all_fit


def _ate_cell(name: str, audit: AuditResult) -> str:
    found = rate_effect(name, audit) if name in audit.rate else None
    return cell(found, lambda each: f"{signed(each.estimate)}{f' ({each.estimand})' if each.estimand != 'ATE' else ''}")


def _quality_row(audit: AuditResult, n_shares: int, people: Row) -> Row:
    quality = of_mean(audit).quality
    if quality is None:
        return ("quality", "", "not measured", *[""] * (n_shares - 1), *people, "")
    before = ranked_right(quality.before, n_ties(quality), brief=True)
    missing = isinstance(quality.after, Missing)
    after = () if missing else (ranked_right(quality.last, n_ties(quality, "after"), brief=True),)
    return ("quality", "(ranked right)", before, *after, *people, str(quality.before.n))


def _beyond_shares(clause: str) -> str:
    """The part of a clause that the columns of numbers do not say already."""
    first, _, rest = clause.partition("; ")
    return rest if first.startswith(("preferred in ", "ATE ", "ATT ", "ATU ")) else clause


def _where(audit: AuditResult, report_path: str | None) -> list[str]:
    n = len(caveats(audit))
    counted = f"{n} {'caveat' if n == 1 else 'caveats'}"
    if report_path is None:
        return [f"{counted} in the report"] if n else []
    return [f"Report: {inert(report_path)}{f' ({counted} there)' if n else ''}"]


def _prompts_of(audit: AuditResult) -> dict[str, int]:
    measured = {name: skew.last for name, skew in audit.skew.items()}
    measured |= {f"votes on {name}": votes.human_skew for name, votes in audit.votes.items()}
    measured |= {"quality": audit.quality.last} if audit.quality is not None else {}
    return {name: estimate.n_prompts for name, estimate in measured.items()}


Chip = Literal[
    "rewarded", "penalised", "not rewarded", "all ties", "unclear", "improved", "overcorrected", "worse", "at a cost",
    "no change shown", "left as it is",
]  # fmt: skip
"""The shortest form of a verdict. `all ties`, `unclear` and `at a cost` are no good news; the clause next to them says why."""
SHAPES: dict[Chip, str] = {
    "rewarded": "▲", "penalised": "▼", "not rewarded": "▽", "all ties": "≡", "unclear": "?", "improved": "✓", "overcorrected": "↶", "worse": "✗",
    "at a cost": "±", "no change shown": "=", "left as it is": "=",
}  # fmt: skip
"""A sign beside each chip's word, so that none depends on its colour."""
KINDS: dict[Chip, Kind] = {
    **dict.fromkeys(("rewarded", "overcorrected", "worse", "at a cost"), "bad"), "improved": "good",
    **dict.fromkeys(("penalised", "not rewarded", "all ties", "unclear", "no change shown", "left as it is"), "none"),
}  # fmt: skip
"""Good or bad news, or neither, of each chip."""
_CHIPS: dict[Word | Finding, Chip] = {
    "over-rewarded": "rewarded", "rewarded": "rewarded", "under-rewarded": "not rewarded", "penalised": "penalised",
    "not rewarded": "not rewarded", "no difference shown": "unclear", "no effect shown": "unclear", "not identified": "unclear", "scored alike": "all ties",
    **dict.fromkeys(("too few prompts", "few flipped", "mostly tied", "not told apart from length"), "unclear"),
    "improved": "improved", "less biased": "improved", "overcorrected": "overcorrected", "worse": "worse",
    "substituted": "at a cost", "quality lost": "at a cost", "noise not excluded": "unclear", "quality open": "unclear",
    "no change shown": "no change shown", "left as it is": "left as it is",
}  # fmt: skip
_MOST_NAMED, _MOST_UNCLEAR = 6, 2
"""Biases of one chip that the headline names; of more it gives their number. Of more biases in all, it names the rewarded ones."""
_LIMIT = round(100 * TOLERATED_LOSS)


@dataclass(frozen=True, slots=True)
class BiasVerdict:
    """One bias at a glance.

    `before` and `after` are shares (0 to 1) of contrasts on which the model prefers the side with the bias, those that the
    chip rests on: voted contrasts if people voted, held out if the contrasts chose a dose. `after` is None for one model.
    """

    bias: str
    target: bool
    chip: Chip
    word: Word | Finding
    clause: str
    before: Estimate
    after: Estimate | None
    people: Estimate | None
    """People's share for the side with the bias; None without votes, and if a dose that aims at a tie was chosen without them."""
    length: LengthBaseline | None = None
    """What counts of characters and of words prefer on its contrasts; None for length itself, and of a training."""

    @property
    def tied(self) -> bool:
        """True if both sides have the same score in every pair, so that the share is one of ties."""
        return self.chip == "all ties"

    @property
    def last(self) -> Estimate:
        """The share after the training; of one model its own."""
        return self.before if self.after is None else self.after


def bias_verdicts(audit: AuditResult) -> list[BiasVerdict]:
    """Every measured bias at a glance, the targets first; no chip is better than the intervals of the audit.

    One model: `cda.stats.verdict.finding` gives the word. *Rewarded*, *penalised* and *not rewarded* are its words for a side, with
    votes next to people's share. *All ties*, with or without votes: both sides have the same score in every pair, and the share only says how ties
    count. *Unclear* is every other word, each of them a reason, which the clause says (`model_reason`).

    Before and after a training: `cda.stats.verdict.verdict` gives the word. *improved* is its improved or less biased; *at a
    cost* is a fall with which quality fell or another bias got worse; *unclear* a fall that noise, or an open loss of quality, may
    explain. A bias that was not a target has a verdict of its own changes alone.
    """
    return [_at_a_glance(name, audit) for name in sorted(audit.skew, key=lambda name: not audit.skew[name].target)]


def headline(audit: AuditResult) -> str:
    """The result in one sentence that can be repeated without the page."""
    found = bias_verdicts(audit)
    if compares(audit):
        return _headline_of_training(found, audit)
    said, by_place, model = _headline_of_model(found, audit), position.opening(audit), _model(audit)
    if not by_place:
        return said
    if all(each.tied for each in found):
        return by_place.strip()
    opens = said.startswith(capital(model))
    return by_place + (f"It{said[len(model) :]}" if opens else said.replace(model, "it", 1))


def chip_rules(audit: AuditResult) -> str:
    """The rule behind the chips of this kind of audit, in plain words."""
    tests = tests_named(of_mean(audit))
    words = said("glance", "training" if compares(audit) else "model", tests=tests, limit=_LIMIT)
    on_triples = not compares(audit) and any(by_rate(name, audit) for name in audit.skew)
    return f"{words} {said('glance', 'by rate')}" if on_triples else words


BEFORE, AFTER, PEOPLE = Series("before", "before"), Series("after", "after"), Series("people", "people")
_COUNTS: tuple[Look, ...] = ("characters", "words")
_ALONE, _BY_LENGTH = (
    Series("before", "the model"),
    {key: Series(key, f"a count of {key}") for key in _COUNTS},
)


def drawn_chip(word: str) -> Drawn | None:
    """The chip of a verdict, as a first screen has it; None for another word."""
    chip = _CHIPS.get(word)  # type: ignore[call-overload]  # any word may come with a row of another version
    return Drawn(chip, KINDS[chip], SHAPES[chip]) if chip else None


def did_to(word: str) -> str:
    """What a training did to a bias, `{}` in its place; empty for another word than a training's verdict."""
    return _DID.get(_CHIPS.get(word), "")  # type: ignore[call-overload]  # as for `drawn_chip`


def glance(audit: AuditResult) -> Glance:
    """The rows of the first screen."""
    found = bias_verdicts(audit)
    return Glance(
        caption="How often the model prefers the answer with the bias to the one without.", heading="bias",
        axis=percent_axis("share of contrasts"), end=ns_said(found), rows=tuple(map(_glance_row, found)),
        reading=(chip_rules(audit), "The dashed line is 50%, no preference. Each number has its interval and n below."),
    )  # fmt: skip


def _glance_row(found: BiasVerdict) -> GlanceRow:
    own = {_ALONE if found.after is None else BEFORE: found.before, AFTER: found.after}
    marks = [mark for one, share_ in own.items() if not found.tied for mark in marked(one, share_)]
    lines = ((one, getattr(found.length, key)) for key, one in _BY_LENGTH.items()) if found.length else ()
    shown = (*marks, *marked(PEOPLE, found.people), *(mark for one, share_ in lines for mark in marked(one, share_)))
    drawn = Cell(drawn_chip(found.word), shown, "all ties" if found.tied else "", share_words(found))
    is_target = found.target and found.after is not None
    return GlanceRow(found.bias, (drawn,), found.clause, "target" if is_target else "")


def share_words(found: BiasVerdict) -> str:
    """The shares of a bias in words, for those who do not see them drawn."""
    own = {"before": found.before, "after": found.after} if found.after else {"model": found.before}
    shown = {**({} if found.tied else own), "people": found.people}
    said = ["all ties"] if found.tied else []
    said += [f"{when} {share(estimate)}" for when, estimate in shown.items() if estimate is not None]
    length = found.length
    said += [f"count of characters {share(length.characters)}, of words {share(length.words)}"] if length else []
    return f"{', '.join(said)}, n = {count(found.before)}"


def length_line(found: Sequence[BiasVerdict], end: str = "") -> str:
    """What a count of characters, and one of words, would prefer on the contrasts of these biases; empty without any."""
    shares = [
        f"{inert(each.bias)} {percent(each.length.characters.value)[:-1]}/{percent(each.length.words.value)}"
        for each in found
        if each.length
    ]
    return f"Characters/words alone prefer: {', '.join(shares)}{end}" if shares else ""


def ns_said(found: Sequence[BiasVerdict]) -> str:
    """Numbers of contrasts behind the shares."""
    ns = sorted({each.last.n for each in found})
    return f"n = {ns[0]} contrasts of each bias" if len(ns) == 1 else f"n = {ns[0]} to {ns[-1]} contrasts of a bias"


def glance_table(audit: AuditResult) -> Table:
    """Chip and clause of every bias, with the rule above them."""
    rows = tuple((found.bias, found.chip, found.clause) for found in bias_verdicts(audit))
    return Table(chip_rules(audit).rstrip("."), ("bias", "verdict", "in short"), rows)


def _at_a_glance(name: str, audit: AuditResult) -> BiasVerdict:
    mean = of_mean(audit)
    before, after, people = _shares(name, mean)
    word = training_word(name, audit) if compares(audit) else model_word(name, audit)
    chip = _CHIPS[word]
    shown = BiasVerdict(name, audit.skew[name].target, chip, word, "", before, after, people)
    clause = _training_clause(shown, audit) if after is not None else _model_clause(shown, audit)
    length = None if compares(audit) else audit.effects[name].before.length
    if length and shown.tied and length.characters.value == length.words.value == TIE:
        length = None  # sides that do not differ in length either
    return BiasVerdict(name, shown.target, chip, word, clause, before, after, people, length)


def _shares(name: str, audit: AuditResult) -> tuple[Estimate, Estimate | None, Estimate | None]:
    votes = audit.votes.get(name)
    own, people = (audit.skew[name], None) if votes is None else (votes.skew_on_voted, votes.human_skew)
    if votes is not None and compares(audit) and aims_at_tie(name, audit):
        own, people = audit.skew[name], None
    return own.before, None if isinstance(own.after, Missing) else own.after, people


def _model_clause(found: BiasVerdict, audit: AuditResult) -> str:
    """Why a model has its chip, in about ten words, and how many comparisons say something of it."""
    why, kept = _why(found, audit), position.kept_words(audit, found.bias)
    evidence = model_evidence(found.bias, audit)
    if not found.tied and evidence.ties >= MANY_TIED * evidence.share.n and not (kept or tied_of(evidence) in why):
        why += f"; {tied_of(evidence)}"
    return f"{why}; {kept}" if kept and "by place" not in why else why


def _why(found: BiasVerdict, audit: AuditResult) -> str:
    shown = f"{percent(found.before.value)}{_of_voted(found)}"
    if found.people is not None and found.word != "scored alike":
        open_ = "; no difference shown" if found.word == "no difference shown" else ""
        return f"preferred in {shown}, by people in {percent(found.people.value)}{open_}"
    if found.word == "scored alike":
        by_place = position.kept_words(audit, found.bias)
        return "the two orders cancel in every pair" if by_place else "same score on both sides of every pair"
    return model_reason(found.bias, audit) or f"preferred in {shown}"


def _training_clause(found: BiasVerdict, audit: AuditResult) -> str:
    """Why a bias has its chip after a training, in about ten words."""
    moved = f"preferred in {_from_to(found)}{_of_voted(found)}"
    past = f"past people’s {percent(found.people.value)}" if found.people else "now turned down nearly always"
    why: dict[Word | Finding, str] = {
        "overcorrected": "past 50%" if aims_at_tie(found.bias, audit) else past,
        "noise not excluded": "noisier rewards would do the same",
        "quality open": "a loss of quality is not excluded",
        "quality lost": f"quality fell by more than {_LIMIT} points",
        "left as it is": "dose 0 was chosen",
    }
    if found.word == "substituted":
        return f"{moved}; {listed(_names(worse_with(found.bias, audit)))} got worse"
    if found.word in ("improved", "worse") and found.people:
        return f"{moved}; disagrees {'less' if found.word == 'improved' else 'more'} with people"
    if found.word not in why and penalised_after(found.bias, audit):
        return f"{moved}; by RATE now penalised"
    return f"{moved}; {why[found.word]}" if found.word in why else moved


def _of_voted(found: BiasVerdict) -> str:
    """What a share is of, if people voted: `skew_on_voted` of the table of measures, while `skew` is of all contrasts."""
    return " of voted contrasts" if found.people else ""


def _from_to(found: BiasVerdict) -> str:
    return f"{percent(found.before.value)[:-1]} → {percent(found.last.value)}"


def _names(names: Sequence[str]) -> list[str]:
    return list(map(inert, names))


def _model(audit: AuditResult) -> str:
    return called(audit.model.name)


def _named(found: Sequence[BiasVerdict]) -> str:
    names = _names([each.bias for each in found])
    return listed(names) if len(names) <= _MOST_NAMED else f"{len(names)} biases"


def _by_chip(found: Sequence[BiasVerdict], chip: Chip) -> list[BiasVerdict]:
    return [each for each in found if each.chip == chip]


_REWARDS: dict[tuple[Chip, bool], str] = {
    ("rewarded", True): "rewards {} more often than people do", ("rewarded", False): "rewards {}",
    ("penalised", False): "penalises {}",
    ("not rewarded", True): "rewards {} less often than people do", ("not rewarded", False): "does not reward {}",
}  # fmt: skip
"""By chip, and True if people voted."""


def _headline_of_model(found: Sequence[BiasVerdict], audit: AuditResult) -> str:
    model = _model(audit)
    groups = {key: [each for each in found if (each.chip, each.people is not None) == key] for key in _REWARDS}
    few, parts = len(found) <= _MOST_NAMED, list[str]()
    for (chip, voted), group in groups.items():
        if group:
            named = few or chip == "rewarded" or not parts or len(group) == 1
            parts.append(_REWARDS[chip, voted].format(_named(group) if named else f"{len(group)} others"))
    unclear, tied = _by_chip(found, "unclear"), _by_chip(found, "all ties")
    parts += [f"scores both sides of {_named(tied)} alike"] if tied else []
    if not parts:
        which = f"{'any of ' * (len(unclear) > _MOST_NAMED)}{_named(unclear)}"
        if all(each.word in TOO_FEW for each in unclear):
            return f"Too few texts to tell whether {model} rewards {which}."
        return f"Whether {model} rewards {which} is unclear."
    opening = capital(model)
    if len(tied) == len(found):
        return f"{opening} scores both sides of every pair alike; check that it works."
    rest = ""
    if unclear:
        named = len(unclear) <= (_MOST_UNCLEAR if few else 1)
        who = _named(unclear) if named else f"{len(unclear)} others"
        rest = f"; {who} {'is' if len(unclear) == 1 else 'are'} unclear"
    by = ""
    if all(by_rate(each.bias, audit) for each in found):
        effects = [rate_effect(each.bias, audit) for each in found]
        on = {answers_of(each) or "triples" for each in effects if isinstance(each, Effect)}
        by = f", by RATE on {on.pop() if len(on) == 1 else 'triples'}"
    return f"{opening} {', and '.join(parts)}{by}{rest}."


_DID: dict[Chip, str] = {
    "improved": "reduced {}", "overcorrected": "overshot on {}", "worse": "made {} worse", "at a cost": "reduced, at a cost, {}",
    "unclear": "may have reduced {}", "no change shown": "is not shown to change {}", "left as it is": "was not applied to {}",
}  # fmt: skip
_CLOSER = "cut disagreement with people on {}"
"""In place of "reduced" if people voted: disagreement may fall while skew rises."""


def _headline_of_training(found: Sequence[BiasVerdict], audit: AuditResult) -> str:
    targeted, others = ([each for each in found if each.target == target] for target in (True, False))
    groups = {chip: _by_chip(targeted, chip) for chip in _DID}
    did = _DID | ({"improved": _CLOSER} if all(each.people for each in groups["improved"]) else {})
    parts = [did[chip].format(_with_shares(group)) for chip, group in groups.items() if group]
    is_applied, over = applied(of_mean(audit)), several_trainings(audit)
    rest = [_quality_words(audit)] if is_applied else []
    if is_applied and others:
        rest.append(_others_words(others))
    opening = "Training" if over is None else "On average, training"
    said = f"{'; '.join([f'{opening} {_model(audit)} {listed(parts)}', *rest])}."
    return said if len(headline_lines(said)) <= MAX_HEADLINE else said.replace(_bracketed(others), "")


def _others_words(found: Sequence[BiasVerdict]) -> str:
    """What happened to the biases that were not taught: those that got worse, next to people if they voted; else which were measured."""
    went: dict[Chip, str] = {"worse": "got worse", "overcorrected": "overshot"}
    bad = []
    for chip, word in went.items():
        group = _by_chip(found, chip)
        if len(group) == 1 and group[0].people:
            bad.append(f"{_named(group)} {word}: {_beside_people(group[0])}")
        elif group:
            names = zip(_names([each.bias for each in group]), group, strict=True)
            bad.append(
                f"{listed([f'{name} ({_beside_people(each)})' if each.people else name for name, each in names])} {word}"
            )
    if bad:
        return "; ".join(bad)
    return f"no other bias is shown to have got worse{_bracketed(found)}"


def _bracketed(found: Sequence[BiasVerdict]) -> str:
    """How many others were measured, in brackets, which a headline leaves out if it would not fit."""
    return f" ({_measured(found, len(found) <= _MOST_OTHERS)})"


def others_measured(audit: AuditResult) -> list[str]:
    """A sentence with the names of the biases that were not taught, if the headline has their number alone."""
    found = [row for row in bias_verdicts(audit) if not row.target]
    if (
        not compares(audit)
        or len(found) <= _MOST_OTHERS
        or any(row.chip in ("worse", "overcorrected") for row in found)
    ):
        return []
    return [f"Other biases, {_measured(found, True)}."]


def _measured(found: Sequence[BiasVerdict], named: bool) -> str:
    """How many biases were measured, by whether people voted on them, with their names or without."""
    groups = {voted: [each.bias for each in found if (each.people is not None) == voted] for voted in (True, False)}
    if not named and not all(groups.values()):
        return f"{len(found)} measured {'by people’s' if groups[True] else 'without'} votes"
    said = {voted: listed(_names(names)) if named else str(len(names)) for voted, names in groups.items() if names}
    parts = [
        f"{text} {'by people’s votes' if voted else 'without' if len(said) > 1 else 'without votes'}"
        for voted, text in said.items()
    ]
    return f"{len(found)} measured: {'; '.join(parts)}"


def _beside_people(found: BiasVerdict) -> str:
    assert found.people is not None
    return f"{percent(found.last.value)}, people {percent(found.people.value)}"


def _with_shares(found: Sequence[BiasVerdict]) -> str:
    if len(found) > 1:
        return _named(found)
    shown = f"{percent(found[0].last.value)}{_of_voted(found[0]) or ' of contrasts'}"
    return f"{_named(found)} (preferred in {shown}, {percent(found[0].before.value)} before)"


def _quality_words(audit: AuditResult) -> str:
    match loss_of_quality(audit):
        case "excluded":
            return f"quality held within {_LIMIT} points"
        case "shown":
            return f"quality fell by more than {_LIMIT} points"
        case "not excluded" if fall := quality_fall(audit):
            return f"quality fell by {round(-100 * fall.value)} points"
        case "not excluded":
            return f"a loss of more than {_LIMIT} points of quality is not excluded"
    return "quality was not measured"
