"""The verdict on each bias, on quality and on the other biases, as sentences; the rules are those of `cda.stats.verdict`."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from cda.auditing.position import decided, kept_words
from cda.auditing.report_cells import (
    REWRITTEN,
    applied,
    at_no_drift,
    average_margin,
    compares,
    margin_words,
    of_mean,
    said,
    targets,
)
from cda.records import OF_TRIPLES
from cda.report.numbers import (
    MANY_TIES,
    count,
    excludes_zero,
    inert,
    listed,
    n_of,
    p_equals,
    percent,
    points,
    ranked_right,
    reward,
    share,
    signed,
    two_digits,
    with_ends,
)
from cda.report.page import Kind
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Measure, Missing, Test, Trained
from cda.results.effects import Confound, Effect, Identification, LengthBaseline, SameMargin, deciding, opposed
from cda.stats import verdict as rules
from cda.stats.estimators import wilson
from cda.stats.verdict import OVERCORRECTED_BELOW, SIGNIFICANT, TIE, TOLERATED_LOSS, Evidence, Moved

_NAMED = 2
"""Confounds that a sentence names; audit.json lists all."""
_MANY_BEYOND = 0.2
"""Share of the pairs beyond the limit of a feature from which it is named if no confound is shown."""


def confounds_sentence(found: Identification | Missing) -> str:
    """The measured features that explain the margin, with their slopes and parts of the mean margin, and the remedy; if none is
    shown to, those that put many pairs beyond the limits. Empty without both; else opens with a space."""
    if isinstance(found, Missing):
        return ""
    named, names = found.confounds[:_NAMED], _named(found)
    text = f" The margin {'; it '.join(map(_confound_words, named))}."
    if not named:
        total, beyond = found.overlap.n_total, found.overlap.beyond
        text = (
            f" Beyond the limits: {', '.join(f'{_words(name)} in {beyond[name]}' for name in names)} of {total} pairs."
        )
    return f"{text} Rewrite the pairs so that both sides match in {listed(list(map(_words, names)))}." if names else ""


def remedy(found: Identification | Missing) -> str:
    """Why the bias is not told apart and what to do, in about ten words, without numbers; empty if no feature is named."""
    names = [] if isinstance(found, Missing) else _named(found)[:1]
    return f"sides also differ in {_words(names[0])}: rewrite them to match" if names else ""


def _named(found: Identification) -> list[str]:
    """The features to name: confounds that are shown, else those that put many pairs beyond the limits."""
    if found.confounds:
        return [own.feature for own in found.confounds[:_NAMED]]
    total, beyond = found.overlap.n_total, found.overlap.beyond
    many = (name for name in beyond if beyond[name] >= _MANY_BEYOND * total)
    return sorted(many, key=lambda name: -beyond[name])[:_NAMED]


def _confound_words(named: Confound) -> str:
    slope = named.slope
    value = slope if isinstance(slope, float) else slope.value
    each = two_digits(slope) if isinstance(slope, float) else with_ends(slope)
    return (
        f"{'rises' if value > 0 else 'falls'} with {_words(named.feature)}: {each} for each one more, "
        f"R² {percent(named.r_squared)} alone, {signed(named.accounts_for)} of the mean margin"
    )


def _words(feature: str) -> str:
    return feature.replace("_", " ")


_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("improved", "less biased"), "good"),
    **dict.fromkeys(("worse", "overcorrected", "substituted", "quality lost", "over-rewarded"), "bad"),
}
_LIMIT = round(100 * TOLERATED_LOSS)
HELD_OUT = ", held out"


def _quality_change(audit: AuditResult) -> tuple[Estimate, bool]:
    """The deciding change of quality accuracy, and True if it is held out, since quality helps choose the dose. Of several trainings
    the change of the mean, or the held-out one of the first, if it leaves a larger loss open."""
    return min((_quality_of(view) for view in _views(audit)), key=lambda found: found[0].low)


def _views(audit: AuditResult) -> list[AuditResult]:
    """What a verdict goes by: the audit, or the mean over its trainings; next to it the first training, if a dose was chosen: the mean
    is then of contrasts that chose the doses, so that a good word needs the held-out results too."""
    mean = of_mean(audit)
    return [mean] if mean is audit or audit.in_sample is None else [mean, audit]


def _quality_of(audit: AuditResult) -> tuple[Estimate, bool]:
    if audit.quality is None:
        raise ValueError("quality was not measured")
    change = audit.quality.of_training().change
    return change, is_held_out(audit)


def loss_of_quality(audit: AuditResult) -> rules.Loss | None:
    """The verdict on a loss of quality; None if quality was not measured twice."""
    if audit.quality is None or isinstance(audit.quality.change, Missing):
        return None
    change, _ = _quality_change(audit)
    return rules.quality_loss(change.low, change.high)


def quality_fall(audit: AuditResult) -> Estimate | None:
    """The deciding change of quality if it is a fall beyond chance; None otherwise."""
    if loss_of_quality(audit) is None:
        return None
    change, _ = _quality_change(audit)
    return change if change.high < 0 else None


def _evidence(name: str, audit: AuditResult) -> Evidence:
    """Changes of a bias; held out if the same contrasts chose the dose."""
    skew, votes = audit.skew[name], audit.votes.get(name)
    beyond = audit.beyond_noise.get(name)
    mean = beyond if isinstance(beyond, Estimate) else None
    if skew.target and is_held_out(audit, name) and audit.in_sample and audit.in_sample.aim == "tie":
        # The contrasts that chose a dose for a tie count as ties of people, whatever few people said.
        return Evidence(_moved(skew), None, True, mean)
    people = None
    if votes is not None:
        gap = votes.gap.change
        people = rules.PeopleEvidence(
            _moved(votes.miscalibration),
            _moved(votes.skew_on_voted),
            votes.human_skew.value,
            isinstance(gap, Estimate) and gap.low > 0,
        )
    return Evidence(_moved(skew), people, people is None and audit.aim == "tie" and skew.target, mean)


def is_held_out(audit: AuditResult, bias: str = "") -> bool:
    """True if the contrasts of a bias, or the quality pairs, chose the dose, so that their numbers are held out."""
    chosen = audit.in_sample
    key = "skew" if bias else "accuracy"
    return chosen is not None and any((each.measure, each.at.get("bias", "")) == (key, bias) for each in chosen.numbers)


def _moved(measure: Measure) -> Moved:
    """A change with Holm's p."""
    before, after, change, test = measure.of_training()
    return Moved(before.value, after.value, change.low, change.high, test.holm, after.low, after.high)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one bias: the word, and the sentence with the numbers behind it."""

    bias: str
    word: rules.Word | rules.Finding
    reason: str

    @property
    def sentence(self) -> str:
        return f"{inert(self.bias)}: {self.word}. {self.reason}"


def verdicts(audit: AuditResult) -> list[Verdict]:
    """The verdict on each target bias, in the recipe's order."""
    if not compares(audit):
        return [_verdict_on_model(name, audit) for name in targets(audit)]
    return [_verdict_on_training(name, audit) for name in targets(audit)]


def training_word(name: str, audit: AuditResult) -> rules.Word:
    """The verdict of a training, or of the mean of several, on any bias; on one that was no target by its own changes alone."""
    words = [_word(name, view) for view in _views(audit)]
    return next((word for word in words if verdict_kind(word) != "good"), words[0])


def _word(name: str, audit: AuditResult) -> rules.Word:
    if audit.skew[name].target:
        evidence = {other: _evidence(other, audit) for other in audit.skew}
        return rules.verdict(name, evidence, loss_of_quality(audit), applied(audit))
    return rules.verdict(name, {name: _evidence(name, audit)}, "excluded", applied(audit))


def aims_at_tie(name: str, audit: AuditResult) -> bool:
    """True if a tie, and not people's votes or a lower share, is what the training's verdict on a bias goes by."""
    return _evidence(name, audit).aims_at_tie


def not_rewarded(shares: Mapping[str, Estimate]) -> str:
    """That nothing is there to remove, with the share of contrasts on which the model before prefers each bias."""
    each = listed([f"{inert(name)} ({share(found)}, n {count(found)})" for name, found in shares.items()])
    return f"the model is not shown to reward {each}: nothing to remove"


def nothing_to_take_away(name: str, audit: AuditResult) -> bool:
    """True if the model before a training is not shown to prefer a bias: the interval of its share reaches 50% or lies below. If ties
    are the aim, the other side counts too; with votes, neither is it shown to want more of the bias than people do."""
    before, votes = audit.skew[name].before, audit.votes.get(name)
    if aims_at_tie(name, audit):
        return before.low <= TIE <= before.high
    if votes is not None:
        return votes.skew_on_voted.before.low <= TIE and votes.signed_gap.before.low <= 0
    return before.low <= TIE


def worse_with(name: str, audit: AuditResult) -> list[str]:
    """Other biases that got worse with the training against one."""
    found = [rules.worsened(name, {other: _evidence(other, view) for other in view.skew}) for view in _views(audit)]
    return list(dict.fromkeys(other for names in found for other in names))


def is_of_mean(harmed: Collection[str], audit: AuditResult) -> bool:
    """True if one of these got worse in the mean over the trainings, and not in the first alone."""
    mean = of_mean(audit)
    return not {*harmed}.isdisjoint(rules.worsened("", {name: _evidence(name, mean) for name in mean.skew}))


def model_evidence(name: str, audit: AuditResult) -> rules.ModelEvidence:
    """The measurements of one model on a bias, without a training."""
    votes, effects, skew = audit.votes.get(name), audit.effects[name], audit.skew[name]
    found, length = effects.before.identification, effects.before.length
    rewritten = skew.source.startswith(REWRITTEN)
    if by_rate(name, audit):
        average, rate, direct = rate_effect(name, audit), audit.rate[name], effects.before.direct
        tried = rate.flips.tried_with + rate.flips.tried_without
        all_tied = isinstance(direct, SameMargin) and direct.value == 0
        # Few like pairs say nothing against RATE; what its pairs show of another difference does.
        margins = [margin for kind, margin in at_no_drift(found).items() if kind != "alike" or margin is not None]
        return rules.ModelEvidence(
            share=skew.before,
            ties=n_ties(skew),
            mean_margin=0.0 if all_tied else average_margin(average),
            p_holm=_p_holm(rate.test),
            identified=isinstance(average, Effect),
            at_no_drift=margins,
            rival=None if length is None else length.rival,
            tried=tried if rate.flips.flipped_with + rate.flips.flipped_without < tried else None,
            by_rate=True,
            opposed=opposed_effects(name, audit) is not None,
        )
    return rules.ModelEvidence(
        share=skew.before,
        ties=n_ties(skew),
        mean_margin=average_margin(effects.before.direct),
        p_holm=votes.gap_test.holm if votes and votes.gap_test else _p_holm(effects.test),
        identified=_is_identified(found),
        at_no_drift=list(at_no_drift(found).values()),
        rival=None if length is None else length.rival,
        alike=(found.overlap.n_prompts, found.overlap.share.value) if isinstance(found, Identification) else None,
        signed_gap=votes.signed_gap.before if votes else None,
        tried=skew.available + sum(skew.rewrites_failed.values()) if rewritten else None,
    )


def by_rate(name: str, audit: AuditResult) -> bool:
    """True if triples alone are the evidence on a bias, so that RATE decides its verdict."""
    return audit.skew[name].source == OF_TRIPLES and name in audit.rate


def rate_effect(name: str, audit: AuditResult) -> Effect | Missing:
    """The effect by RATE that decides a bias's verdict, under the last scoring (`deciding`); or why there is no ATE."""
    rate = audit.rate[name]
    return rate.measured if isinstance(rate.measured, Missing) else deciding(rate.measured.last, rate.flips)


def penalised_after(name: str, audit: AuditResult) -> Estimate | None:
    """RATE's effect after a training that took a bias past no effect: wholly below 0, and before it not; else None."""
    rate = audit.rate.get(name)
    if rate is None or isinstance(rate.measured, Missing) or not compares(audit):
        return None
    before, after = (deciding(each, rate.flips) for each in (rate.measured.before, rate.measured.last))
    if isinstance(after, Missing) or after.estimate.high >= 0:
        return None
    return None if isinstance(before, Effect) and before.estimate.high < 0 else after.estimate


def opposed_effects(name: str, audit: AuditResult) -> tuple[Effect, Effect] | None:
    """The ATT and ATU of a bias under the last scoring if they have opposite signs, so that the ATE holds for no answer; else None."""
    rate = audit.rate.get(name)
    return None if rate is None or isinstance(rate.measured, Missing) else opposed(rate.measured.last)


def answers_of(effect: Effect) -> str:
    """The answers that an effect by RATE holds for if that is not all."""
    return {"ATT": "answers with it", "ATU": "answers without it"}.get(effect.estimand, "")


def opposite_of(name: str, audit: AuditResult) -> str | None:
    """What the bias file calls the answer without the bias; None if it has no word for it."""
    return next((bias.opposite for bias in audit.biases if bias.name == name), None)


def model_word(name: str, audit: AuditResult) -> rules.Finding:
    """The finding on one bias of one model, without a training."""
    return rules.finding(model_evidence(name, audit))


def prompts_needed(found: rules.ModelEvidence) -> int:
    """Prompts that a verdict needs, by all that the evidence shows: more in all where those that are alike otherwise decide, as many as
    hold enough of these even if their share is at the lower end of its interval. Never fewer than `MIN_PROMPTS`."""
    n_prompts = found.share.n_prompts
    enough = found.share.model_copy(update={"n_prompts": max(n_prompts, rules.MIN_PROMPTS)})
    if found.alike is None or rules.finding(replace(found, share=enough)) != "too few prompts":
        return rules.MIN_PROMPTS
    low, _ = wilson(found.alike[0], n_prompts)
    return math.ceil(rules.MIN_PROMPTS / max(low, rules.MIN_SHARE))


def model_reason(name: str, audit: AuditResult) -> str:
    """Why one model has no verdict on a bias, or a verdict that other differences may share in, in about ten words; else empty."""
    found, by_place = model_evidence(name, audit), decided(audit, name)
    share_, word, n = found.share, rules.finding(found), found.share.n
    against = f"preferred in {percent(share_.value)} only; " if share_.high < TIE else ""
    average = rate_effect(name, audit) if found.by_rate else None
    match word:
        case "few flipped" if found.by_rate:
            return f"{n} of {found.tried} triples flipped the bias: too few for an ATE"
        case "not identified" if found.opposed and (both := opposed_effects(name, audit)):
            att, atu = (reward(each.estimate.value) for each in both)
            return f"opposite effects: ATT {att}, ATU {atu}"
        case "not identified" if isinstance(average, Missing):
            return f"no ATE, {average.reason.removeprefix('ATE (double) cannot be estimated: ')}"
        case "no effect shown" | "rewarded" | "penalised" | "not rewarded" if isinstance(average, Effect):
            open_ = "; 0 is not excluded" if word == "no effect shown" else ""
            alone = f"; {of} alone" if (of := answers_of(average)) else ""
            return f"{average.estimand} {signed(average.estimate)}{_other_side(name, audit, found)}{alone}{open_}"
        case "mostly tied" | "no effect shown" if by_place is not None and rules.mostly_by_place(by_place):
            return kept_words(audit, name)
        case "too few prompts" if found.alike is not None and share_.n_prompts >= rules.MIN_PROMPTS:
            alike, n_prompts, needed = found.alike[0], share_.n_prompts, prompts_needed(found)
            return f"alike otherwise in {alike} of {n_prompts} prompts; about {needed} prompts are needed"
        case "too few prompts":
            needed = prompts_needed(found)
            least = "about" if needed > rules.MIN_PROMPTS else "at least"
            return f"{against}{n_of(share_.n_prompts, 'prompt')}; a verdict needs {least} {needed}"
        case "few flipped":
            return f"{against}{n} of {found.tried} rewrites flipped the bias; at least {rules.MIN_PROMPTS} prompts are needed"
        case "mostly tied":
            return tied_of(found)
        case "not told apart from length":
            length = audit.effects[name].before.length
            by = f": a count of characters prefers it in {percent(length.characters.value)}" if length else ""
            return f"not told apart from length{by}"
        case "not identified":
            if found.rival:
                return f"sides also differ in {_words(found.rival)}: rewrite them to match"
            return remedy(audit.effects[name].before.identification) or said("glance", "not identified")
        case "no effect shown" if _ties_decide(found, audit.model.halves_ties):
            return f"{tied_of(found)}; preferred in {percent(share_.value)}"
        case "no effect shown" if share_.low <= TIE <= share_.high:
            return f"preferred in {percent(share_.value)}; 50% is not excluded"
        case "no effect shown":
            return f"preferred in {percent(share_.value)}; the mean margin shows no effect"
        case "penalised" | "not rewarded" if why := _other_side(name, audit, found):
            return f"preferred in {percent(share_.value)}{why}"
    return ""


def tied_of(found: rules.ModelEvidence) -> str:
    """How many pairs are exact ties."""
    return f"{found.ties} of {found.share.n} tied"


def _other_side(name: str, audit: AuditResult, found: rules.ModelEvidence) -> str:
    """What a model prefers that turns a bias down, after a semicolon; empty if that is only the side without it."""
    opposite = opposite_of(name, audit)
    if rules.finding(found) not in ("penalised", "not rewarded") or (found.alone and not opposite):
        return ""
    side, other = (f"the {inert(opposite)} answer", "it") if opposite else ("the side without it", "that")
    return f"; prefers {side}{'' if found.alone else f', or what goes with {other}'}"


def _ties_decide(found: rules.ModelEvidence, halves_ties: bool) -> bool:
    """True if ties, which are no preference, are why a share is not above 50%: among the other pairs the biased side is shown to be
    preferred in more than half, or is in half or more where the share is wholly below."""
    if halves_ties or found.by_rate or found.ties < MANY_TIES * found.share.n or found.share.low > TIE:
        return False
    wins, decided_ = round(found.share.value * found.share.n), found.share.n - found.ties
    if not 0 < wins <= decided_:
        return False
    return wilson(wins, decided_)[0] > TIE or (found.share.high < TIE and 2 * wins >= decided_)


def verdict_kind(word: str) -> Kind:
    """Classify a verdict as good news, bad news or neither."""
    return _KINDS.get(word, "none")


def quality_kind(audit: AuditResult) -> Kind:
    """Good if a loss of quality is excluded, bad if one is shown; neither if that is open or was not asked."""
    loss = loss_of_quality(audit)
    return "good" if loss == "excluded" else "bad" if loss == "shown" else "none"


def _verdict_on_training(name: str, given: AuditResult) -> Verdict:
    word, audit = training_word(name, given), of_mean(given)
    evidence = {other: _evidence(other, audit) for other in audit.skew}
    own = evidence[name]
    before = ""
    if word in ("no change shown", "left as it is") and nothing_to_take_away(name, audit):
        shown = audit.votes[name].skew_on_voted if name in audit.votes else audit.skew[name]
        before = f" Before, the model is not shown to prefer it ({share(shown.before)}): nothing to take away is shown."
    if word == "left as it is":
        return Verdict(name, word, _left_sentence(name, audit) + before)
    worse = worse_with(name, given) if word == "substituted" else []
    along = [other for other in rules.moved_along(name, evidence) if other not in worse]
    text = _without_votes(name, word, own, audit) if own.people is None else _with_votes(name, word, audit)
    # With several targets it is unknown which one moved another bias.
    text += _along_sentence(along if len(targets(audit)) == 1 else [], audit)
    text += before + _worse_sentence(worse, audit) + _doubt_sentence(name, word, own, given)
    if (past := penalised_after(name, audit)) is not None:
        text += (
            f" By RATE the model now penalises it ({signed(past)} {audit.effects[name].unit}): a smaller dose, or "
            "objectives=[neutral,keep], leaves less of that."
        )
    if audit is not given and is_held_out(given, name):
        first: Measure = given.votes[name].miscalibration if own.people else given.skew[name]
        change = first.of_training().change
        text += f" Trainings were measured on the contrasts that chose the dose; held out, the first changed by {points(change)}."
    text += _open_rises_sentence(name, along, evidence) if verdict_kind(word) == "good" else ""
    return Verdict(name, word, text + ("" if name in audit.votes else " No human votes say what is right."))


def _verdict_on_model(name: str, audit: AuditResult) -> Verdict:
    skew, votes, effects = audit.skew[name].before, audit.votes.get(name), audit.effects[name]
    direct, identification = effects.before.direct, effects.before.identification
    if isinstance(direct, SameMargin) and direct.value == 0:
        same = f"Both sides have the same score in all {count(direct)} pairs"
        by_place, shows = decided(audit, name), f"skew of {percent(skew.value)} only shows how ties are counted"
        text = f"{same}: the model does not tell them apart, and its {shows}. Check that the scorer works."
        if by_place is not None and rules.mostly_by_place(by_place):
            text = f"{same}, as the place decides and both orders are averaged: what it prefers is not seen, and its {shows}."
    elif votes:
        own, people, disagree = votes.skew_on_voted.before, votes.human_skew, votes.miscalibration.before
        text = (
            f"Of {count(people)} contrasts with a majority the model prefers the biased side in {share(own)}, people in "
            f"{share(people)}; they disagree on {share(disagree)}."
        )
    else:
        text = f"The biased side is preferred in {share(skew)} of contrasts (n = {count(skew)})."
        if by_rate(name, audit):
            average = rate_effect(name, audit)
            text = f"Of both rewrites of {count(skew)} triples the one with the bias is preferred in {share(skew)}."
            if isinstance(average, Effect):
                holm, of = p_equals(_p_holm(audit.rate[name].test)), answers_of(average)
                of = f" of {of}, there are no others" if of else ""
                text += f" By RATE it changes the score by {signed(average.estimate)} {effects.unit} ({average.estimand}, double rewrites{of}; p (Holm) {holm})."
        elif isinstance(direct, SameMargin):
            text += f" The margin is {reward(direct.value)} {effects.unit} in each of the {count(direct)} pairs."
        elif isinstance(direct, Effect):
            text += f" Mean margin {signed(direct.estimate)} {effects.unit}."
    word, found = model_word(name, audit), model_evidence(name, audit)
    # RATE has no effect, or two opposite ones, whatever else differs.
    drifts = word == "not identified" and not (found.by_rate and (found.opposed or found.mean_margin is None))
    unknown = not _is_identified(identification) and not isinstance(average_margin(direct), float)
    if unknown and (votes or drifts):
        text += f" The bias is not told apart from what else differs: {identification.reason}{confounds_sentence(identification)}"
    if drifts:
        text += f" {drift_sentence(name, audit)}{_rival_sentence(audit.effects[name].before.length)}"
    elif word == "not told apart from length":
        text += length_sentence(name, audit)
    elif (
        word in ("too few prompts", "few flipped", "mostly tied", "no effect shown", "not identified")
        and not votes
        and not (word == "no effect shown" and by_rate(name, audit))  # the effect is there already
    ):
        text += f" Why: {model_reason(name, audit)}."
    elif word in ("penalised", "not rewarded") and (other := _other_side(name, audit, found)):
        text += f" It {other.removeprefix('; ')}."
    kept = kept_words(audit, name)
    text = f"{text.strip().rstrip('.')}. {kept}" if kept and kept not in text else text
    return Verdict(name, word, f"{text.strip().rstrip('.')}.")


def _rival_sentence(length: LengthBaseline | None) -> str:
    if length is None or length.rival is None:
        return ""
    return f" The change in {_words(length.rival)} may explain the margins as well as the bias does, or better."


def drift_sentence(name: str, audit: AuditResult) -> str:
    """That other differences may explain a mean margin, with the estimates; the audit's reason if the pairs do not identify the
    effect. Empty if they may not, of a training, or with people's votes: people saw the other differences too."""
    identification = audit.effects[name].before.identification
    if compares(audit) or name in audit.votes or not _is_identified(identification):
        return ""
    margins, found = at_no_drift(identification), model_evidence(name, audit)
    if found.p_holm >= SIGNIFICANT or not rules.may_be_drift(found.mean_margin, margins.values()):
        return ""
    said = {kind: margin_words(margin) for kind, margin in margins.items()}
    alike = f"among pairs that are alike otherwise {said.pop('alike')}"
    adjusted = ", ".join(f"{form.replace('_', ' ')} {margin}" for form, margin in said.items())
    return f"What else differs between the sides may explain this: {alike}; adjusted for it {adjusted}.{confounds_sentence(identification)}"


def cancels_by_rate(name: str, audit: AuditResult) -> bool:
    """True if a verdict on triples stands though few pairs are alike, since RATE takes what else differs to cancel."""
    found = audit.effects[name].before.identification
    few = isinstance(found, Identification) and isinstance(found.overlap_effect, Missing)
    return few and not compares(audit) and by_rate(name, audit) and model_evidence(name, audit).alone


def _is_identified(found: Identification | Missing) -> bool:
    return isinstance(found, Identification) and found.is_identified


def length_sentence(name: str, audit: AuditResult) -> str:
    """That length may be what one model prefers, with the shares of two scorers of length; else empty."""
    length = audit.effects[name].before.length
    if length is None or model_word(name, audit) != "not told apart from length":
        return ""
    by = f"a count of characters would prefer the biased side in {share(length.characters)}, one of words in {share(length.words)}"
    parts = (length.explained, length.left)
    mean = "; ".join(
        f"{signed(part)} of the mean margin {what}"
        for part, what in zip(parts, ("goes with the change in length", "is left to the bias"), strict=True)
        if isinstance(part, Estimate)
    )
    return f" It is not told apart from length: {by}{f'; {mean}' if mean else ''}."


def _p_holm(test: Test | Missing) -> float:
    return 1.0 if isinstance(test, Missing) or test.p_holm is None else test.p_holm


def quality_sentence(audit: AuditResult) -> str:
    """The verdict on a loss of quality accuracy of more than 5 points; of one model, its accuracy."""
    mean, two = of_mean(audit), compares(audit)
    quality = mean.quality
    if quality is None:
        return "Quality was not measured" + (", so a loss cannot be excluded." if two else ".")
    before = quality.before
    if not two and n_ties(quality) == before.n:
        return f"Quality: both sides are scored alike in all {count(before)} held-out pairs, so that none is ranked."
    if not two:
        right = ranked_right(before, n_ties(quality))
        return f"Quality: {right} of held-out pairs are ranked right, n = {count(before)}."
    if applied(mean) == 0:
        return f"Quality is that of the model before: {share(before)}, n = {count(before)}."
    change, held = _quality_change(audit)
    numbers = f"{'held out ' if held else ''}{points(change, limit=-TOLERATED_LOSS)}, n = {count(change)}"
    loss = f"a loss of more than {_LIMIT} points is {loss_of_quality(audit)}"
    return f"Quality{' fell' if quality_fall(audit) else ''}: {loss} ({numbers})."


def ties_sentence(audit: AuditResult) -> str:
    """The numbers of margins of exactly 0, no preference of a reward model; those of verdicts and grades, which count half,
    are named if they are many. Empty if there are none."""
    if compares(audit):
        return ""
    measured: dict[str, Measure] = {inert(name): audit.skew[name] for name in targets(audit)}
    measured |= {"quality pairs": audit.quality} if audit.quality is not None else {}
    least = MANY_TIES if audit.model.halves_ties else 0.0
    tied = ", ".join(
        f"{name} {ties} of {measure.before.n}"
        for name, measure in measured.items()
        if (ties := n_ties(measure)) and ties >= least * measure.before.n
    )
    half = "Ties, each counted as half a preference"
    none = "Both sides scored exactly alike, which counts as no preference"
    return f"{half if audit.model.halves_ties else none}: {tied}." if tied else ""


def n_ties(measure: Measure, moment: str = "before") -> int:
    """Rows that are scored exactly alike; 0 if that is not known."""
    found = measure.ties if isinstance(measure.ties, Missing) else getattr(measure.ties, moment)
    return 0 if isinstance(found, Missing) else found


def _from_to(before: Estimate, after: Estimate) -> str:
    return f"{percent(before.value)[:-1]}% to {percent(after.value)}"


def _with_votes(name: str, word: str, audit: AuditResult) -> str:
    votes = audit.votes[name]
    before, after, change, test = votes.miscalibration.of_training()
    text = (
        f"Model and people disagreed on {percent(before.value)} of contrasts before and {percent(after.value)} after, "
        f"a change of {points(change)} (n = {count(change)}{_held_or_p(name, audit, change, test)})."
    )
    if word == "overcorrected":
        skew = _from_to(*votes.skew_on_voted.of_training()[:2])
        return (
            f"Skew went from {skew}, past people's "
            f"{percent(votes.human_skew.value)} and further from it than before. {text}"
        )
    return text


def _without_votes(name: str, word: str, own: Evidence, audit: AuditResult) -> str:
    skew, held = audit.skew[name], is_held_out(audit, name)
    before, after, change, test = skew.of_training()
    moved = "rose" if own.skew.rose else "fell" if own.skew.fell else "went"
    parts = [f"{percent(part.last.value)} where {way}" for way, part in audit.skew_by_direction(name).items()]
    ways = f" ({', '.join(parts)})" if parts else ""
    text = (
        f"Skew {moved} from {percent(before.value)[:-1]}% to {percent(after.value)}{'' if held else ways}, {points(change)} "
        f"(n = {count(change)}{_held_or_p(name, audit, change, test)})."
    )
    ended, below = after, percent(OVERCORRECTED_BELOW)
    if word == "overcorrected" and own.aims_at_tie:
        return f"{text} Ties were the aim, and skew ended past 50%: {share(ended, TIE)}{', held out' if held else ''}."
    if word == "overcorrected":
        return f"{text} Below {below} the model turns the bias down nearly always."
    if own.skew.fell and not own.aims_at_tie and ended.value < OVERCORRECTED_BELOW:
        text += (
            f" Whether skew is below {below}, where the model turns the bias down nearly always, is "
            f"open: {share(ended, OVERCORRECTED_BELOW)}."
        )
    return text


def _held_or_p(name: str, audit: AuditResult, change: Estimate, test: Test) -> str:
    return (HELD_OUT if is_held_out(audit, name) else "") + _p_that_decides(change, test.holm)


def _p_that_decides(change: Estimate, p_holm: float) -> str:
    """Holm's p if it contradicts the interval, which is the one that readers see."""
    return f", Holm-adjusted p {p_equals(p_holm)}" if excludes_zero(change) and p_holm >= SIGNIFICANT else ""


def _doubt_sentence(name: str, word: str, own: Evidence, audit: AuditResult) -> str:
    """Why a fall that is shown has no good word, though no other bias got worse; empty if that is not so."""
    if word in ("quality lost", "quality open"):
        if audit.quality is None:
            return " Quality was not measured, so that a loss is not excluded."
        said = "shown" if word == "quality lost" else "not excluded"
        change = points(_quality_change(audit)[0], limit=-TOLERATED_LOSS)
        return f" A loss of quality of more than {_LIMIT} points is {said}: {change}."
    if word != "noise not excluded":
        return ""
    text = " Rewards that only became noisier would do the same"
    if own.beyond_noise is None:
        beyond = audit.beyond_noise[name]
        return f"{text}, and whether they did is not known: {beyond.reason if isinstance(beyond, Missing) else ''}."
    return f"{text}: beyond noise, the mean margin moved by {signed(own.beyond_noise)} reward."


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
    plain = audit.plain.last("skew", name) if audit.plain else None
    return f"{text} (n = {count(before)})." + (f" Plain CDA would have made skew {share(plain)}." if plain else "")


def _along_sentence(names: Sequence[str], audit: AuditResult) -> str:
    parts = []
    for name in names:
        skew = audit.skew[name].of_training()
        moved = "fell" if skew.change.value < 0 else "rose"
        parts.append(
            f"{inert(name)} {moved} from {_from_to(skew.before, skew.after)}, {points(skew.change)} ({_holm_words(skew)})"
        )
    return f" With it, {'; '.join(parts)}." if parts else ""


def _worse_sentence(names: Sequence[str], audit: AuditResult) -> str:
    parts = []
    for name in names:
        voted = audit.votes.get(name)
        skew = (voted.skew_on_voted if voted else audit.skew[name]).of_training()
        moved = f"{_from_to(skew.before, skew.after)} ({_holm_words(skew)})"
        if voted is None:
            parts.append(f"skew rose on {inert(name)} from {moved}")
            continue
        missed = voted.miscalibration.of_training()
        parts.append(
            f"{inert(name)} is preferred in {moved}, by people in {percent(voted.human_skew.value)}, and "
            f"disagreement with them went from {_from_to(missed.before, missed.after)} ({_holm_words(missed)})"
        )
    return f" Yet {'; '.join(parts)}." if parts else ""


def _holm_words(shares: Trained) -> str:
    return f"Holm-adjusted p {p_equals(shares.test.holm)}"
