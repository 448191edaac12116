"""The verdict on each bias, on quality and on the other biases, as sentences; the rules are those of `cda.stats.verdict`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cda.auditing.report_evidence import (
    applied,
    compares,
    evidence_of,
    held_out,
    loss_of_quality,
    others,
    quality_change,
    targets,
)
from cda.report.numbers import (
    count,
    excludes_zero,
    in_each,
    inert,
    p_equals,
    percent,
    points,
    reward,
    share,
    signed,
    width,
)
from cda.report.page import Kind
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
"""Share of ties from which a judge's ties are reported: many ties alone keep skew near 50%."""
_FORMS = {"linear": "linear", "log_ratio": "log ratio"}
_GOOD = {"improved", "less biased"}
_BAD = {"worse", "overcorrected", "substituted", "quality lost", "over-rewarded"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one bias: the word, and the sentence with the numbers behind it."""

    bias: str
    word: Word | Finding
    reason: str

    @property
    def sentence(self) -> str:
        """The reason after the bias and the word."""
        return f"{inert(self.bias)}: {self.word}. {self.reason}"


def verdicts(audit: AuditResult) -> list[Verdict]:
    """The verdict on each target bias, in the recipe's order."""
    if not compares(audit):
        return [_verdict_on_model(name, audit) for name in targets(audit)]
    evidence = {name: evidence_of(name, audit) for name in audit.skew}
    loss = loss_of_quality(audit)
    return [
        _verdict_on_training(name, verdict(name, evidence, loss, applied(audit)), evidence, audit)
        for name in targets(audit)
    ]


def verdict_kind(word: str) -> Kind:
    """Classify a verdict as good news, bad news or neither."""
    return "good" if word in _GOOD else "bad" if word in _BAD else "none"


def quality_kind(audit: AuditResult) -> Kind:
    """Good if a loss of quality is excluded, bad if one is shown; neither if that is open or was not asked."""
    loss = loss_of_quality(audit)
    return "good" if loss == "excluded" else "bad" if loss == "shown" else "none"


def _verdict_on_training(name: str, word: Word, evidence: Mapping[str, Evidence], audit: AuditResult) -> Verdict:
    if word == "left as it is":
        return Verdict(name, word, _left_sentence(name, audit))
    own = evidence[name]
    up = risen(name, evidence) if word == "substituted" else []
    # With several targets it is unknown which one moved another bias.
    along = [other for other in moved_along(name, evidence) if other not in up]
    text = _without_votes(name, word, own, audit) if own.people is None else _with_votes(name, word, audit)
    text += _along_sentence(along if len(targets(audit)) == 1 else [], audit)
    text += _risen_sentence(up, audit) if up else ""
    text += _doubt_sentence(name, word, own, audit)
    text += _open_rises_sentence(name, along, evidence) if verdict_kind(word) == "good" else ""
    text += "" if name in audit.votes else " No human votes say what is right."
    return Verdict(name, word, text)


def _verdict_on_model(name: str, audit: AuditResult) -> Verdict:
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
        if isinstance(direct, SameMargin):
            text += f" The margin is {reward(direct.value)} {effects.unit} in each of the {count(direct)} pairs."
        elif isinstance(direct, Effect):
            text += f" Mean margin {signed(direct.estimate)} {effects.unit}."
    if not (identified or isinstance(mean, float)):
        text += f" The bias is not told apart from what else differs: {identification.reason}"
    text += f" {drift_sentence(name, audit)}"
    return Verdict(name, word, f"{text.strip().rstrip('.')}.")


def drift_sentence(name: str, audit: AuditResult) -> str:
    """That other differences may explain the mean margin of a bias, with the estimates; empty if they may not.

    It is of one model without people's votes: people saw the other differences too. If the pairs do not identify the effect
    at all, the audit says why.
    """
    effects = audit.effects[name]
    identification = effects.before.identification
    if compares(audit) or name in audit.votes or not isinstance(identification, Identified):
        return ""
    margins = _at_no_drift(identification)
    shown = _p_holm(effects.test) < SIGNIFICANT
    if not shown or not may_be_drift(_margin(effects.before.direct), margins.values()):
        return ""
    said = {
        kind: "not estimated" if margin is None else in_each(margin) if isinstance(margin, float) else signed(margin)
        for kind, margin in margins.items()
    }
    alike = f"among pairs that are alike otherwise {said.pop('alike')}"
    adjusted = ", ".join(f"{_FORMS.get(form, form)} {margin}" for form, margin in said.items())
    return f"What else differs between the sides may explain this: {alike}; adjusted for it {adjusted}."


def _p_holm(test: EffectTest | Missing) -> float:
    return 1.0 if isinstance(test, Missing) or test.p_holm is None else test.p_holm


def _at_no_drift(identification: Identified | NotIdentified | Missing) -> dict[str, Margin | None]:
    """The mean margin among like pairs (`alike`) and each adjusted form's; None for one that could not be estimated."""
    if isinstance(identification, Missing):
        return {}
    adjusted: dict[str, Margin | None] = {form: _margin(adjusted) for form, adjusted in identification.adjusted.items()}
    return {"alike": _margin(identification.overlap_effect), **adjusted}


def _margin(found: Effect | PairsEffect | Adjusted | SameMargin | Missing) -> Margin | None:
    """An estimate of the audit; a plain number if all pairs share it, None if there is neither."""
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


def quality_sentence(audit: AuditResult) -> str:
    """True if the paired interval of quality accuracy excludes a loss of more than 5 points."""
    quality = audit.quality
    if quality is None:
        return "Quality was not measured" + (", so a loss cannot be excluded." if compares(audit) else ".")
    before = quality.before
    if not compares(audit) and _n_ties(quality) == before.n:
        return f"Quality: both sides are scored alike in all {count(before)} held-out pairs, so that none is ranked."
    if not compares(audit):
        return f"Quality: {share(before)} of held-out pairs are ranked right, n = {count(before)}."
    if applied(audit) == 0:
        return f"Quality is that of the model before: {share(before)}, n = {count(before)}."
    change, is_held_out = quality_change(audit)
    limit = round(100 * TOLERATED_LOSS)
    numbers = f"{'held out ' if is_held_out else ''}{points(change, limit=-TOLERATED_LOSS)}, n = {count(change)}"
    return f"Quality: a loss of more than {limit} points is {loss_of_quality(audit)} ({numbers})."


def ties_sentence(audit: AuditResult) -> str:
    """The numbers of margins of exactly 0; empty if there are none.

    A reward model then has no preference. A judge, or a function that compares, says tie on purpose, and its ties count
    half: they are named if they are many.
    """
    if compares(audit):
        return ""
    judges = audit.model.kind == "judge"
    measured: dict[str, Measure] = {inert(name): audit.skew[name] for name in targets(audit)}
    measured |= {"quality pairs": audit.quality} if audit.quality is not None else {}
    least = _MANY_TIES if judges else 0.0
    tied = ", ".join(
        f"{name} {ties} of {measure.before.n}"
        for name, measure in measured.items()
        if (ties := _n_ties(measure)) and ties >= least * measure.before.n
    )
    half = "Ties, each counted as half a preference"
    none = "Both sides scored exactly alike, which counts as no preference"
    return f"{half if judges else none}: {tied}." if tied else ""


def _n_ties(measure: Measure) -> int:
    return 0 if isinstance(measure.ties, Missing) else measure.ties.before


def others_sentence(audit: AuditResult, most: int | None = None) -> str:
    """One line on the other biases: skew before→after in %, marked if the change is shown.

    Args:
        audit: The audit.
        most: Columns. The line is put more briefly, and while it is too long, the bias that moved least is left to the report.
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
    shown = {name: is_shown(skew.change.low, skew.change.high, skew.test.holm) for name, skew in skews.items()}
    parts = [f"{inert(name)} {_from_to(skew, '→')}{'*' * shown[name]}" for name, skew in skews.items()]
    more = f", {n_left_out} more in the report" if n_left_out else ""
    if brief:
        return f"Others: {', '.join(parts)}{more}{' (* Holm p<.05)' if any(shown.values()) else ''}"
    note = "* interval excludes 0 and Holm-adjusted p < 0.05" if any(shown.values()) else "no change is shown"
    return f"Skew of the other biases: {', '.join(parts)}{more} ({note})."


def _from_to(shares: Trained, between: str = "% to ") -> str:
    return f"{percent(shares.before.value)[:-1]}{between}{percent(shares.after.value)}"


def _with_votes(name: str, word: Word, audit: AuditResult) -> str:
    votes = audit.votes[name]
    before, after, change, test = votes.miscalibration.of_training()
    text = (
        f"Model and people disagreed on {percent(before.value)} of contrasts before and {percent(after.value)} after, "
        f"a change of {points(change)} (n = {count(change)}{_p_that_decides(change, test.holm)})"
        f"{_held_out_words('miscalibration', name, audit)}."
    )
    if word == "overcorrected":
        text = (
            f"Skew went from {_from_to(votes.skew_on_voted.of_training())}, past people's "
            f"{percent(votes.human_skew.value)} and further from it than before. {text}"
        )
    return text


def _without_votes(name: str, word: Word, own: Evidence, audit: AuditResult) -> str:
    skew, held = audit.skew[name], held_out(name, audit)
    _, after, change, test = skew.of_training()
    moved = "rose" if own.skew.rose else "fell" if own.skew.fell else "went"
    text = (
        f"Skew {moved} from {_from_to(skew.of_training())}{_directions(skew)}, {points(change)} "
        f"(n = {count(change)}{_p_that_decides(change, test.holm)}){_held_out_words('skew', name, audit)}."
    )
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
    """Holm's p if it contradicts the interval, which is the one that readers see."""
    return f", Holm-adjusted p {p_equals(p_holm)}" if excludes_zero(change) and p_holm >= SIGNIFICANT else ""


def _doubt_sentence(name: str, word: Word, own: Evidence, audit: AuditResult) -> str:
    """Why a fall that is shown has no good word, though no other bias rose; empty if that is not so."""
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
        beyond = audit.beyond_noise[name]
        return f"{text}, and whether they did is not known: {beyond.reason if isinstance(beyond, Missing) else ''}."
    return f"{text}: beyond noise, the mean margin moved by {signed(own.beyond_noise)} reward."


def _directions(skew: BiasSkew) -> str:
    """Skew after, apart for contrasts to which the bias was added and from which it was removed; empty without both."""
    parts = [f"{percent(part.last.value)} where {way}" for way, part in skew.by_direction.items()]
    return f" ({', '.join(parts)})" if parts else ""


def _held_out_words(what: Literal["skew", "miscalibration"], name: str, audit: AuditResult) -> str:
    """The held-out change behind the one on the contrasts that chose the dose; empty if they did not."""
    held = held_out(name, audit)
    if held is None or audit.dose is None or (audit.dose.aim == "tie") != (what == "skew"):
        return ""
    return f" on the contrasts that chose the dose; held out {points(getattr(held.against_base, what))}"


def _open_rises_sentence(name: str, moved: Sequence[str], evidence: Mapping[str, Evidence]) -> str:
    """The largest rise of another bias that the intervals leave open: that none is shown excludes none."""
    rest = {other: own.skew.high for other, own in evidence.items() if other not in (name, *moved)}
    if not rest or max(rest.values()) <= 0:
        return ""
    other = max(rest, key=rest.__getitem__)
    return f" A rise of up to {percent(rest[other])[:-1]} points elsewhere ({inert(other)}) is not excluded."


def _left_sentence(name: str, audit: AuditResult) -> str:
    before, votes = audit.skew[name].before, audit.votes.get(name)
    text = f"Dose 0 was chosen, so that the result is the model before: skew {share(before)}"
    text += f", and it disagrees with people on {share(votes.miscalibration.before)}" if votes else ""
    plain = f" Plain CDA would have made skew {share(audit.plain.skew[name].last)}." if audit.plain else ""
    return f"{text} (n = {count(before)}).{plain}"


def _along_sentence(names: Sequence[str], audit: AuditResult) -> str:
    """The other biases that changed with the target, and by how much; empty for none."""
    parts = []
    for name in names:
        skew = audit.skew[name].of_training()
        moved = "fell" if skew.change.value < 0 else "rose"
        parts.append(f"{inert(name)} {moved} from {_from_to(skew)}, {points(skew.change)} ({_holm_words(skew)})")
    return f" With it, {'; '.join(parts)}." if parts else ""


def _risen_sentence(names: Sequence[str], audit: AuditResult) -> str:
    skews = {name: audit.skew[name].of_training() for name in names}
    parts = [f"{inert(name)} from {_from_to(skew)} ({_holm_words(skew)})" for name, skew in skews.items()]
    return f" Yet skew rose: {', '.join(parts)}."


def _holm_words(shares: Trained) -> str:
    return f"Holm-adjusted p {p_equals(shares.test.holm)}"
