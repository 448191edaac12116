"""The verdict on each bias that was trained on, on quality, and on the other biases, as sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cda.auditing.report_evidence import applied, evidence_of, held_out, loss_of_quality, quality_change
from cda.report.numbers import (
    count,
    excludes_zero,
    in_each,
    inert,
    p_value,
    percent,
    points,
    reward,
    share,
    signed,
    width,
)
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Measure, Missing, Trained
from cda.results.effects import Adjusted, Effect, EffectTest, Identified, NotIdentified, PairsEffect, SameMargin
from cda.results.skew import BiasSkew
from cda.stats.verdict import (
    OVERCORRECTED_BELOW,
    SIGNIFICANT,
    TIE,
    TOLERATED_LOSS,
    Evidence,
    Finding,
    Loss,
    Margin,
    Word,
    finding,
    is_shown,
    may_be_drift,
    moved_along,
    risen,
    verdict,
)

_MANY_TIES = 0.1
"""Share of ties from which a judge's are said: a few are what it was asked for, many leave skew near 50% by themselves."""
_FORMS = {"linear": "linear", "log_ratio": "log ratio"}
_GOOD = {"improved", "less biased"}
_BAD = {"worse", "overcorrected", "substituted", "quality lost", "over-rewarded"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What happened to one bias.

    Attributes:
        bias: Its name.
        word: The verdict.
        sentence: The verdict with the numbers it rests on.
    """

    bias: str
    word: Word | Finding
    sentence: str

    @property
    def reason(self) -> str:
        """The sentence without the bias and the word."""
        return self.sentence.removeprefix(f"{inert(self.bias)}: {self.word}. ")


def verdicts(audit: AuditResult) -> list[Verdict]:
    """The verdict on each target bias, in the recipe's order; the rules are those of `cda.stats.verdict`."""
    if len(audit.scorings) == 1:
        return [_finding(name, audit) for name in targets(audit)]
    evidence = {name: evidence_of(name, audit) for name in audit.skew}
    loss = loss_of_quality(audit)
    found = []
    for name in targets(audit):
        own, word = evidence[name], verdict(name, evidence, loss, applied(audit))
        if word == "left as it is":
            text = _left_sentence(name, audit)
        else:
            up = risen(name, evidence) if word == "substituted" else []
            # Of several targets nobody knows which one moved another bias along.
            along = [other for other in moved_along(name, evidence) if other not in up]
            text = _without_votes(name, word, own, audit) if own.people is None else _with_votes(name, word, audit)
            text += _along_sentence(along if len(targets(audit)) == 1 else [], audit)
            text += _risen_sentence(up, audit) if up else ""
            text += _doubt_sentence(name, word, own, audit)
            text += _open_rises_sentence(name, along, evidence) if verdict_kind(word) == "good" else ""
            text += "" if name in audit.votes else " No human votes say what is right."
        found.append(Verdict(name, word, f"{inert(name)}: {word}. {text}"))
    return found


def verdict_kind(word: str) -> Literal["good", "bad", "none"]:
    """Whether a verdict is good or bad news, or neither."""
    return "good" if word in _GOOD else "bad" if word in _BAD else "none"


def quality_kind(audit: AuditResult) -> Literal["good", "bad", "none"]:
    """Good where a loss of quality is excluded, bad where one is shown; neither where that is open or was not asked."""
    kinds: dict[Loss, Literal["good", "bad"]] = {"excluded": "good", "shown": "bad"}
    loss = loss_of_quality(audit)
    return "none" if loss is None else kinds.get(loss, "none")


def _finding(name: str, audit: AuditResult) -> Verdict:
    """What an audit of one model says of a bias."""
    skew, votes, effects = audit.skew[name].before, audit.votes.get(name), audit.effects[name]
    direct, identification = effects.before.direct, effects.before.identification
    gap = votes.signed_gap.before if votes else None
    p_holm = votes.gap_test.holm if votes and votes.gap_test else _p_holm(effects.test)
    identified = isinstance(identification, Identified)
    mean = _margin(direct)
    word = finding(mean, p_holm, identified, gap, list(_at_no_drift(identification).values()))
    if votes:
        own, people, disagree = votes.skew_on_voted.before, votes.human_skew, votes.miscalibration.before
        text = (
            f"Of {count(people)} contrasts with a majority the model prefers the biased side in {share(own)}, people in "
            f"{share(people)}; they disagree on {share(disagree)}."
        )
    elif isinstance(direct, SameMargin) and direct.value == 0:
        text = f"Both sides are scored alike in all {count(direct)} pairs: no preference."
    else:
        text = f"The biased side is preferred in {share(skew)} of contrasts (n = {count(skew)})."
        text += f" {_mean_sentence(direct, effects.unit)}"
    if not (identified or isinstance(mean, float)):
        text += f" The bias is not told apart from what else differs: {identification.reason}"
    if may_be := drift_sentence(name, audit):
        text += f" {may_be}"
    return Verdict(name, word, f"{inert(name)}: {word}. {text.strip().rstrip('.')}.")


def drift_sentence(name: str, audit: AuditResult) -> str:
    """That what else differs may explain the mean margin of a bias, with the estimates that say so; empty where it may not.

    Of one model without people's votes; people saw what else differs too. Where the pairs do not identify the effect at
    all, the audit says why.
    """
    if len(audit.scorings) > 1 or name in audit.votes:
        return ""
    effects = audit.effects[name]
    identification = effects.before.identification
    mean, found = _margin(effects.before.direct), _at_no_drift(identification)
    shown = _p_holm(effects.test) < SIGNIFICANT
    if not shown or not isinstance(identification, Identified) or not may_be_drift(mean, found.values()):
        return ""
    said = {kind: _said(margin) for kind, margin in found.items()}
    alike = f"among pairs that are alike otherwise {said.pop('alike')}"
    adjusted = ", ".join(f"{_FORMS.get(form, form)} {margin}" for form, margin in said.items())
    return f"What else differs between the sides may explain this: {alike}; adjusted for it {adjusted}."


def _p_holm(test: EffectTest | Missing) -> float:
    """Holm's p; 1 without a test."""
    return 1.0 if isinstance(test, Missing) or test.p_holm is None else test.p_holm


def _mean_sentence(direct: Effect | SameMargin | Missing, unit: str) -> str:
    """The mean margin of all pairs; empty where there is none."""
    match direct:
        case SameMargin():
            return f"The margin is {reward(direct.value)} {unit} in each of the {count(direct)} pairs."
        case Effect():
            return f"Mean margin {signed(direct.estimate)} {unit}."
        case Missing():
            return ""


def _at_no_drift(identification: Identified | NotIdentified | Missing) -> dict[str, Margin | None]:
    """The mean margin among like pairs (`alike`) and each adjusted form's; None for one that could not be estimated."""
    if isinstance(identification, Missing):
        return {}
    adjusted: dict[str, Margin | None] = {form: _margin(one) for form, one in identification.adjusted.items()}
    return {"alike": _margin(identification.overlap_effect), **adjusted}


def _margin(found: Effect | PairsEffect | Adjusted | SameMargin | Missing) -> Margin | None:
    """An estimate of the audit; a plain number where all pairs share it, None where there is neither."""
    match found:
        case SameMargin():
            return found.value
        case Missing():
            return None
        case Effect():
            return found.estimate
        case PairsEffect():
            return found.mean_margin
        case Adjusted():
            return found.effect


def _said(margin: Margin | None) -> str:
    if margin is None:
        return "not estimated"
    return in_each(margin) if isinstance(margin, float) else signed(margin)


def targets(audit: AuditResult) -> list[str]:
    """The biases that were trained on."""
    return [name for name, skew in audit.skew.items() if skew.target]


def others(audit: AuditResult) -> list[str]:
    """The other biases that were measured."""
    return [name for name, skew in audit.skew.items() if not skew.target]


def quality_sentence(audit: AuditResult) -> str:
    """Whether the paired interval of quality accuracy excludes a loss of more than 5 points."""
    quality = audit.quality
    if quality is None:
        return "Quality was not measured" + (", so a loss cannot be excluded." if len(audit.scorings) > 1 else ".")
    before = quality.before
    if len(audit.scorings) == 1 and _ties(quality) == before.n:
        return f"Quality: both sides are scored alike in all {count(before)} held-out pairs, so that none is ranked."
    if len(audit.scorings) == 1:
        return f"Quality: {share(before)} of held-out pairs are ranked right, n = {count(before)}."
    if applied(audit) == 0:
        return f"Quality is that of the model before: {share(before)}, n = {count(before)}."
    change, is_held_out = quality_change(audit)
    limit = round(100 * TOLERATED_LOSS)
    numbers = f"{'held out ' if is_held_out else ''}{points(change, limit=-TOLERATED_LOSS)}, n = {count(change)}"
    return f"Quality: a loss of more than {limit} points is {loss_of_quality(audit)} ({numbers})."


def ties_sentence(audit: AuditResult) -> str:
    """Where a model scores both sides exactly alike; empty where it never does.

    Of a reward model that is no preference. A judge, or a function that compares, says tie on purpose, and its ties count
    half: they are named where they are many.
    """
    if len(audit.scorings) > 1:
        return ""
    judges = audit.model.kind == "judge"
    measured: dict[str, Measure] = {name: audit.skew[name] for name in targets(audit)}
    if audit.quality is not None:
        measured["quality pairs"] = audit.quality
    tied = [(inert(name), _ties(one), one.before.n) for name, one in measured.items()]
    least = _MANY_TIES if judges else 0.0
    said = ", ".join(f"{name} {ties} of {n}" for name, ties, n in tied if ties and ties >= least * n)
    what = (
        "Ties, each counted as half a preference"
        if judges
        else "Both sides scored exactly alike, which counts as no preference"
    )
    return f"{what}: {said}." if said else ""


def _ties(one: Measure) -> int:
    """Margins of exactly 0, of one model as it is."""
    return 0 if isinstance(one.ties, Missing) else one.ties.before


def others_sentence(audit: AuditResult, most: int | None = None) -> str:
    """One line on the other biases: skew before→after in %, marked where the change is shown (`cda.stats.verdict`).

    Args:
        audit: The audit's JSON.
        most: Columns. The line is put more briefly, and where it still is too long, the biases that moved least are left
            to the report.
    """
    skews = {name: audit.skew[name].of_training() for name in others(audit)}
    if not skews:
        return "No other bias was measured."
    kept = list(skews)
    while True:
        line = _others_line({name: skews[name] for name in kept}, len(skews) - len(kept), brief=most is not None)
        if most is None or width(line) <= most or len(kept) <= 1:
            return line
        kept.remove(min(kept, key=lambda name: abs(skews[name].change.value)))


def _others_line(skews: Mapping[str, Trained], n_left_out: int, brief: bool) -> str:
    parts, marked = [], False
    for name, skew in skews.items():
        significant = is_shown(skew.change.low, skew.change.high, skew.test.holm)
        marked = marked or significant
        before, after = percent(skew.before.value)[:-1], percent(skew.after.value)
        parts.append(f"{inert(name)} {before}→{after}{'*' if significant else ''}")
    more = f", {n_left_out} more in the report" if n_left_out else ""
    if brief:
        return f"Others: {', '.join(parts)}{more}{' (* Holm p<.05)' if marked else ''}"
    note = "* interval excludes 0 and Holm-adjusted p < 0.05" if marked else "no change is shown"
    return f"Skew of the other biases: {', '.join(parts)}{more} ({note})."


def _with_votes(name: str, word: Word, audit: AuditResult) -> str:
    votes = audit.votes[name]
    before, after, change, test = votes.miscalibration.of_training()
    text = (
        f"Model and people disagreed on {percent(before.value)} of contrasts before and {percent(after.value)} after, "
        f"a change of {points(change)} (n = {count(change)}{_p_that_decides(change, test.holm)})"
        f"{_held_out_words('miscalibration', name, audit)}."
    )
    if word == "overcorrected":
        skew = votes.skew_on_voted.of_training()
        text = (
            f"Skew went from {percent(skew.before.value)} to {percent(skew.after.value)}, past people's "
            f"{percent(votes.human_skew.value)} and further from it than before. {text}"
        )
    return text


def _without_votes(name: str, word: Word, own: Evidence, audit: AuditResult) -> str:
    skew = audit.skew[name]
    before, after, change, test = skew.of_training()
    moved = "rose" if own.skew.rose else "fell" if own.skew.fell else "went"
    text = (
        f"Skew {moved} from {percent(before.value)} to {percent(after.value)}{_directions(skew)}, {points(change)} "
        f"(n = {count(change)}{_p_that_decides(change, test.holm)}){_held_out_words('skew', name, audit)}."
    )
    held = held_out(name, audit)
    ended = after if held is None else held.people.skew
    if word == "overcorrected" and own.aims_at_tie:
        return f"{text} Ties were the aim, and skew ended past 50%: {share(ended, TIE)}{', held out' if held else ''}."
    if word == "overcorrected":
        return f"{text} Below {percent(OVERCORRECTED_BELOW)} the model turns the bias down nearly always."
    if own.skew.fell and not own.aims_at_tie and ended.value < OVERCORRECTED_BELOW:
        text += (
            f" Whether skew is below {percent(OVERCORRECTED_BELOW)}, where the model turns the bias down nearly always, is "
            f"open: {share(ended, OVERCORRECTED_BELOW)}."
        )
    return text


def _p_that_decides(change: Estimate, p_holm: float) -> str:
    """Holm's p where it says otherwise than the interval, which is the one that readers see."""
    return f", Holm-adjusted p {_p(p_holm)}" if excludes_zero(change) and p_holm >= SIGNIFICANT else ""


def _doubt_sentence(name: str, word: Word, own: Evidence, audit: AuditResult) -> str:
    """Why a fall that is shown has no good word, though no other bias rose; empty where that is not so."""
    if word in ("quality lost", "quality open"):
        if audit.quality is None:
            return " Quality was not measured, so that a loss is not excluded."
        said = "shown" if word == "quality lost" else "not excluded"
        change = points(quality_change(audit)[0], limit=-TOLERATED_LOSS)
        return f" A loss of quality of more than {round(100 * TOLERATED_LOSS)} points is {said}: {change}."
    if word != "noise not excluded":
        return ""
    text = " Rewards that only became noisier would do the same"
    if own.beyond_noise is None:
        found = audit.beyond_noise[name]
        why = found.reason if isinstance(found, Missing) else ""
        return f"{text}, and whether they did is not known: {why}."
    return f"{text}: beyond noise, the mean margin moved by {signed(own.beyond_noise)} reward."


def _directions(skew: BiasSkew) -> str:
    """Skew after, apart for contrasts to which the bias was added and from which it was removed; empty without both."""
    parts = [f"{percent(one.last.value)} where {how}" for how, one in skew.by_direction.items()]
    return f" ({', '.join(parts)})" if parts else ""


def _held_out_words(what: str, name: str, audit: AuditResult) -> str:
    """The held-out change behind the one on the contrasts that chose the dose; empty where they did not."""
    held = held_out(name, audit)
    if held is None or audit.dose is None or (audit.dose.aim == "tie") != (what == "skew"):
        return ""
    change = held.against_base.skew if what == "skew" else held.against_base.miscalibration
    return f" on the contrasts that chose the dose; held out {points(change)}"


def _open_rises_sentence(name: str, moved: list[str], evidence: Mapping[str, Evidence]) -> str:
    """The largest rise of another bias that the intervals leave open, beside a good word: that none is shown excludes none."""
    rest = {other: own.skew.high for other, own in evidence.items() if other not in (name, *moved)}
    if not rest or max(rest.values()) <= 0:
        return ""
    other = max(rest, key=rest.__getitem__)
    return f" A rise of up to {percent(rest[other])[:-1]} points elsewhere ({inert(other)}) is not excluded."


def _left_sentence(name: str, audit: AuditResult) -> str:
    before, votes = audit.skew[name].before, audit.votes.get(name)
    text = f"Dose 0 was chosen, so that the result is the model before: skew {share(before)}"
    if votes:
        text += f", and it disagrees with people on {share(votes.miscalibration.before)}"
    plain = f" Plain CDA would have made skew {share(audit.plain.skew[name].last)}." if audit.plain else ""
    return f"{text} (n = {count(before)}).{plain}"


def _along_sentence(names: list[str], audit: AuditResult) -> str:
    """Which other biases changed with the target, and by how much; empty for none."""
    parts = []
    for name in names:
        before, after, change, test = audit.skew[name].of_training()
        moved = "fell" if change.value < 0 else "rose"
        parts.append(
            f"{inert(name)} {moved} from {percent(before.value)} to {percent(after.value)}, {points(change)} "
            f"(Holm-adjusted p {_p(test.holm)})"
        )
    return f" With it, {'; '.join(parts)}." if parts else ""


def _risen_sentence(names: list[str], audit: AuditResult) -> str:
    parts = []
    for name in names:
        before, after, _, test = audit.skew[name].of_training()
        moved = f"{percent(before.value)} to {percent(after.value)}"
        parts.append(f"{inert(name)} from {moved} (Holm-adjusted p {_p(test.holm)})")
    return f" Yet skew rose: {', '.join(parts)}."


def _p(value: float) -> str:
    text = p_value(value)
    return text if text.startswith("<") else f"= {text}"
