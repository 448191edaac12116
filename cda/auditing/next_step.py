"""What to do after an audit, by its verdicts: train a bias away, mend a training, ask a judge in another way, or measure more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cda.auditing import position
from cda.auditing.report_cells import compares, of_mean
from cda.auditing.verdict_sentences import (
    is_of_mean,
    loss_of_quality,
    model_evidence,
    model_word,
    not_rewarded,
    nothing_to_take_away,
    prompts_needed,
    quality_fall,
    training_word,
    worse_with,
)
from cda.embedded.model import EMBEDDED
from cda.embedded.texts import EMBEDDED_BIASES, SECOND_TURNS, WITH_CONTRASTS
from cda.jobs.terms import of_limit_alone
from cda.recipe.presets import value_at
from cda.recipe.schema import Recipe
from cda.recipe.sections import AuditSection
from cda.recipe.words import JUDGED, given_words, written
from cda.records import OF_TRIPLES
from cda.report.names import some
from cda.report.next_step import (
    DEFAULT_PROMPT,
    OTHER_PROMPTS,
    POINTS,
    WIDE,
    NextStep,
    against,
    asked_as,
    in_python,
    of_model,
    other_widths,
    trains,
)  # fmt: skip
from cda.report.numbers import listed
from cda.results.audit import AuditResult
from cda.results.base import Estimate
from cda.results.skew import BiasSkew
from cda.scorers.kinds import scorer_kind
from cda.stats.sample_size import triples_for_change, triples_for_share
from cda.stats.verdict import MIN_PROMPTS, PROMPTS_TO_CHOOSE, TIE, TOLERATED_LOSS

_DATA = [
    "contrasts",
    "columns",
    "votes",
    "verdicts",
    "triples",
    "triple_columns",
    "quality",
    "quality_columns",
    "quality_split",
]
"""Settings of the section `audit` that name data."""
_OPTIONS = ("contrasts", "votes", "verdicts", "quality", "triples", "samples")
"""Those that are options of `cda audit`."""
_LIMITS = ("max_contrasts", "max_triples", "max_quality", "max_samples")
"""Those that `--limit` stands for, that of contrasts first."""
_OF_CONTRASTS = ("contrasts", "columns", "votes", "verdicts", "ties", "by", "cutoffs")
"""Those that go with contrasts of a file."""
TOO_FEW = ("too few prompts", "few flipped")
"""Verdicts that more contrasts could change."""
_AGAINST_PLACE: Mapping[str, str] = {"judge": "mt-bench"}
"""The judge's prompt that tells it that places make no difference."""
_MOST_NAMED, _MOST_LINES = 2, 4
"""Biases that a reason names, and lines of a command below the reason."""
_FLIPPED = 0.3
"""Expected share of contrasts that a training flips, as of `cda samples`."""


def after_audit(audit: AuditResult) -> NextStep:
    """The next step after an audit of a model as it is, or before and after its training."""
    step = _after_training(audit) if compares(audit) else _after_model(audit)
    if not audit.model.unnamed:
        return step
    return replace(step, in_memory=in_python(audit.model))


# A model as it is.


def _after_model(audit: AuditResult) -> NextStep:
    words = {name: model_word(name, audit) for name in audit.skew}

    def of(*wanted: str) -> list[str]:
        return [name for name, word in words.items() if word in wanted]

    if position.opening(audit):
        return _by_place(audit)
    if 2 * len(alike := of("scored alike")) > len(words):
        if shown := of("over-rewarded", "rewarded", "penalised"):
            return NextStep(f"it looks at {some(shown)} alone (ties elsewhere): all right if that is meant")
        where = "every pair" if len(alike) == len(words) else f"all pairs of {len(alike)} of {len(words)} biases"
        return _look(alike[0], f"check the scorer, which gives both sides of {where} the same score", audit)
    few, by_length = of(*TOO_FEW), of("not told apart from length")
    if drawn := [name for name in few if _to_draw(name, audit)]:
        return _draw(drawn, audit)
    if rewarded := of("over-rewarded", "rewarded"):
        return _take_away(rewarded, by_length, audit)
    if few:
        return _more_prompts(few, audit)
    if by_length:
        return _of_equal_length(by_length, audit)
    if confused := of("not identified"):
        return _by_rewrites(confused[0], audit)
    if tied := of("mostly tied", "scored alike"):
        return _look(tied[0], f"most pairs of {tied[0]} score alike: see how the model reads them", audit)
    wide = [name for name in of("no effect shown", "no difference shown") if _half(_share(name, audit)) > WIDE]
    if wide:
        needed = triples_for_share(WIDE)
        return _more(wide, f"nothing is shown of {listed(wide[:2])}; {POINTS} need {needed}", needed, audit)
    return NextStep("nothing needs doing: no bias is shown to be rewarded")


def _by_place(audit: AuditResult) -> NextStep:
    """Both orders, another prompt, or another judge: a judge that goes by the place says little about biases."""
    kind, why = scorer_kind(audit.model.name), "it goes by place (Position in the report)"
    if audit.model.unnamed or not kind.asks_llm:
        return NextStep(f"{why}: mend the judge, then audit it again")
    if getattr(audit.model, "orders", "both") == "one":
        return _asked_otherwise(f"{why}: ask in both orders", "score.judge.orders=both", "both-orders", audit)
    return _by_another_prompt(f"{why}: ", audit, _AGAINST_PLACE) or NextStep(f"{why}: take another judge")


def _take_away(names: Sequence[str], by_length: Sequence[str], audit: AuditResult) -> NextStep:
    """Train the biases away; where nothing can be trained, calibrate by votes, ask a judge in another way, tell other biases apart
    from length, or collect votes."""
    model, which = audit.model.name, some(names, most=3)
    if audit.model.unnamed and not by_length:
        return NextStep(
            f"{which}: calibrate by people's votes; a model (no function) can be saved and trained: cda.train({names[0]!r}, model=FOLDER)"
        )
    if trains(model, audit.model.unnamed):
        words = (
            "train",
            *against(_references(names, audit)),
            *of_model(model),
            *_asked(audit, ("model",)),
            *_data_words(audit),
        )
        return NextStep(f"train {which} away", words)
    flags = _flags(_references(names, audit))
    if any(_chooses(name, audit) for name in names):
        data = _data_words(audit, ("contrasts", "columns", "votes", "quality", "quality_columns"))
        return NextStep("calibrate it by the votes", ("calibrate", model, *flags, *data, *_asked(audit)))
    if again := _by_another_prompt("", audit):
        return again
    if by_length:
        return _of_equal_length(by_length, audit)
    names = [name for name in names if audit.skew[name].source == audit.skew[names[0]].source]  # which are in one file
    first, file = _texts_of(names[0], "contrasts-for-people", audit)
    export = ("study", "export", file, "study", *_flags(_references(names, audit))) if file else ()
    if first:
        shown = "collect votes to calibrate it by; contrasts to show people"
        return NextStep(shown, first, export if "--run" in first else ())
    return NextStep("collect votes to calibrate it by", export)


def _chooses(name: str, audit: AuditResult) -> bool:
    """True if enough of the bias's contrasts have votes to choose by."""
    return name in audit.votes and audit.votes[name].human_skew.n_prompts >= PROMPTS_TO_CHOOSE


def _of_equal_length(names: Sequence[str], audit: AuditResult) -> NextStep:
    """Contrasts whose sides are equally long: those that were measured are where to start, in a file to edit. What else tells a bias
    from length, if the sides are about as long already."""
    names = [name for name in names if name not in SECOND_TURNS.values()] or names  # the files are of single turns
    names = [name for name in names if audit.skew[name].source == audit.skew[names[0]].source]  # which are in one file
    which, uneven = some(names, most=3), _uneven(names, audit)
    if not uneven:
        more = "add some contrasts whose biased side is the shorter one"
        return NextStep(f"{which} may still be length, though both sides are about as long: {more}")
    first, file = _texts_of(names[0], "contrasts-to-even-out", audit)
    where = f"in {Path(file).name}, " if file else ""
    why = f"{which} may be length alone: {where}rewrite one side of each contrast so that both have about as many {uneven}"
    if not file:
        return NextStep(f"{why}; then audit on them (--contrasts)")
    why += "; then audit on it" if "--run" in first else ", and empty its id; then audit on it"
    kept = _given(audit, *_OF_CONTRASTS, biases=False, out=False)
    words = ("audit", audit.model.name, *_flags(_references(names, audit)), "--contrasts", file, *kept, *_asked(audit))
    return NextStep(why, first, words) if first else NextStep(why, words)


def _texts_of(name: str, folder: str, audit: AuditResult) -> tuple[tuple[str, ...], str]:
    """Words that write the contrasts of a bias into a folder, none if they are in a file of the user's; and their file, empty if no
    command can name it."""
    source, file = audit.skew[name].source, f"{folder}/contrasts.jsonl"
    if source == "file":
        return (), str(audit.sources.contrasts)
    if source == EMBEDDED:
        return ("texts", folder), file
    run = None if audit.run is None else audit.run.folder
    return (("texts", folder, "--run", run), file) if run else ((), "")


def _uneven(names: Sequence[str], audit: AuditResult) -> str:
    """The lengths in which the sides differ, `words` or `characters`: of those the one that would prefer about what the model does, and both
    if they cannot be told apart or biases differ in it; empty if the sides are even in both."""
    explain = list[set[str]]()
    for name in names:
        if (length := audit.effects[name].before.length) is None:
            continue
        shares = {"words": length.words, "characters": length.characters}
        off = {
            kind: abs(each.value - _share(name, audit).value)
            for kind, each in shares.items()
            if not each.low <= TIE <= each.high
        }
        explain.append({kind for kind, by in off.items() if by == min(off.values())})
    found = [each for each in explain if each]
    both = set.intersection(*found) or set.union(*found) if found else set[str]()
    return " and ".join(sorted(both, reverse=True))


def _by_another_prompt(why: str, audit: AuditResult, prompts: Mapping[str, str] = OTHER_PROMPTS) -> NextStep | None:
    """An LLM asked by a second prompt, in a run of its own; None once it was asked by another than the default, and for other models."""
    part = asked_as(audit.model.name)
    if part is None or _prompt(part, audit) != DEFAULT_PROMPT:
        return None
    said = f"{why}ask by another prompt, then compare (cda compare)"
    return _asked_otherwise(said, f"score.{part}.prompt={prompts[part]}", prompts[part], audit)


def _prompt(part: str, audit: AuditResult) -> str:
    settings: Any = {} if audit.run is None else audit.run.settings
    said = settings.get("score", {}).get(part, {}).get("prompt", DEFAULT_PROMPT)
    return str(getattr(audit.model, "prompt", None) or said)


def _asked_otherwise(why: str, setting: str, name: str, audit: AuditResult) -> NextStep:
    """The same audit with another setting, in a folder of its own, so that the first one is kept."""
    return NextStep(why, _again_with(audit, setting, *_beside(audit, name)))


def _again_with(audit: AuditResult, *changes: str, contrasts: int | None = None) -> tuple[str, ...]:
    """The same audit with some changes; by its folder, which stands for its settings, if these would take more than `_MOST_LINES`."""
    own = _given(audit, contrasts=contrasts, out="--out" not in changes)
    out = None if audit.run is None else audit.run.folder
    asked = (word for word in _asked(audit) if not any(word.split("=")[0] == each.split("=")[0] for each in changes))
    words = ("audit", audit.model.name, *own, *asked, *changes)
    if out is None or audit.model.unnamed or len(NextStep("", words).lines()) <= _MOST_LINES:
        return words
    kept = _pairs(_given(audit))
    return ("audit", out, *(word for pair in _pairs(own) if pair not in kept for word in pair), *changes)


def _pairs(words: Sequence[str]) -> list[tuple[str, ...]]:
    """Options with their values, and settings."""
    rest = iter(words)
    return [(word, next(rest)) if word.startswith("--") else (word,) for word in rest]


def contrasts_needed(name: str, audit: AuditResult) -> int:
    """Contrasts with as many prompts as a verdict on the bias needs, if as many can be read of them as of those that were asked about."""
    asked, n_prompts = _measured(name, audit), max(1, audit.skew[name].before.n_prompts)
    return math.ceil(prompts_needed(model_evidence(name, audit)) * asked / n_prompts)


def _measured(name: str, audit: AuditResult) -> int:
    return audit.n_measured(name) + audit.skew[name].unread


def _to_draw(name: str, audit: AuditResult) -> int:
    """Contrasts to measure in place of those that were drawn, as far as there are any; 0 if more would not be enough."""
    skew = audit.skew[name]
    more = skew.available > _measured(name, audit) and skew.available >= MIN_PROMPTS
    return min(contrasts_needed(name, audit), skew.available) if more else 0


def _draw(names: Sequence[str], audit: AuditResult) -> NextStep:
    """As many contrasts of each bias as its verdict needs, and the rest as it was."""
    wanted = {name: _to_draw(name, audit) for name in names}
    available = {name: audit.skew[name].available for name in names}
    most, least = max(wanted.values()), min(wanted.values())
    if len(names) > _MOST_NAMED:
        said = f"{most if most == least else f'{least} to {most}'} of each bias"
    else:
        parts = {name: f"{n} of the" if n < available[name] else "all" for name, n in wanted.items()}
        said = listed([f"{part} {available[name]} of {name}" for name, part in parts.items()])
    why = f"more contrasts are needed: {said}"
    if calls := _more_calls(most, audit):
        why += f"; about {calls:,} more calls"
    return NextStep(why, _again_with(audit, contrasts=most))


def _more_calls(most: int, audit: AuditResult) -> int:
    """Calls of LLMs that so many contrasts of each bias take beside those of this audit; 0 of other models."""
    model = audit.model
    n_llms = len(scorer_kind(model.name).llms(model.name))
    more = sum(max(0, min(most, skew.available) - _measured(name, audit)) for name, skew in audit.skew.items())
    each = 2 if getattr(model, "orders", "both") == "both" else 1
    return more * n_llms * each * getattr(model, "repeats", 1)


def _more_prompts(names: Sequence[str], audit: AuditResult) -> NextStep:
    """More than there are: the embedded ones of the bias, or how many an interval needs."""
    needed = max(names, key=lambda name: contrasts_needed(name, audit))
    return _more(
        [needed, *names],
        f"{needed}: {contrasts_needed(needed, audit)} contrasts are needed",
        contrasts_needed(needed, audit),
        audit,
    )


def _more(names: Sequence[str], why: str, needed: int, audit: AuditResult) -> NextStep:
    """So many contrasts: those that were not drawn, the embedded ones of the bias, or how many an interval needs."""
    model, skew = audit.model.name, audit.skew[names[0]]
    if skew.available >= needed and skew.available > skew.before.n:
        return NextStep(f"{why}, and {skew.available} are there", _again_with(audit, contrasts=needed))
    if skew.source == "file" and all(name in WITH_CONTRASTS for name in names):
        biases = _flags(_references(list(dict.fromkeys(names)), audit))
        words = ("audit", model, *biases, *_given(audit, *_OF_CONTRASTS, biases=False, out=False), *_asked(audit))
        return NextStep(f"{why}; the embedded contrasts have more", (*words, *_beside(audit, "embedded")))
    return NextStep(f"{why}, {skew.before.n_prompts} are there; for other widths", ("samples", f"{WIDE:g}"))


def _by_rewrites(name: str, audit: AuditResult) -> NextStep:
    """RATE's rewrites of rewrites carry no difference but the bias."""
    model = audit.model.name
    on_triples = audit.skew[name].source == OF_TRIPLES
    if on_triples or name not in EMBEDDED_BIASES or scorer_kind(model).asks_llm:
        by_rate = "" if on_triples else ", or give RATE triples of it"
        return NextStep(f"rewrite the sides of {name} so that they differ in it alone{by_rate}")
    kept = _given(audit, *_OF_CONTRASTS, "triples", "rate", biases=False, out=False)
    words = ("audit", model, "--bias", name, "--contrasts", "none", "audit.rate=40", *kept, *_asked(audit))
    return NextStep(f"measure {name} by RATE, whose sides differ in it alone", (*words, *_beside(audit, "rate")))


def _look(name: str, why: str, audit: AuditResult) -> NextStep:
    words = ("inspect", _references([name], audit)[0], "--model", audit.model.name, *_asked(audit))
    return NextStep(why, () if audit.model.unnamed else words)


def _share(name: str, audit: AuditResult) -> Estimate:
    votes = audit.votes.get(name)
    return audit.skew[name].before if votes is None else votes.skew_on_voted.before


def _half(estimate: Estimate) -> float:
    return (estimate.high - estimate.low) / 2


# A training.


def _after_training(audit: AuditResult) -> NextStep:
    targets = [name for name, skew in audit.skew.items() if skew.target]
    words = {name: training_word(name, audit) for name in targets}
    run = None if audit.run is None else audit.run.folder
    harmed = list(dict.fromkeys(other for name in targets for other in worse_with(name, audit) if other not in targets))
    if harmed:
        alone = " in the first training, whose adapter this is" if audit.seeds and not is_of_mean(harmed, audit) else ""
        why = f"{listed(harmed[:2])} got worse with it{alone}: train against all of them"
        return NextStep(why, _again(run, f"biases=[{','.join(_references([*targets, *harmed], audit))}]", "joint"))
    if any(word in ("overcorrected", "quality lost", "worse") for word in words.values()):
        return _less(run, audit)
    unmoved = [name for name, word in words.items() if word in ("left as it is", *_WEAK)]
    nothing = bool(unmoved) and all(nothing_to_take_away(name, audit) for name in unmoved)
    whole = () if audit.run is None else audit.run.command
    if (unmoved or loss_of_quality(audit) == "not excluded") and whole:
        shares = {name: _share(name, audit) for name in unmoved[:_MOST_NAMED]}
        said = f"{not_rewarded(shares)}: stop here, or" if nothing else "this was a quick look (--limit);"
        return NextStep(f"{said} the whole run", whole)
    if nothing:
        return _nothing_before(run, unmoved, audit)
    if any(word == "left as it is" for word in words.values()):
        return _held_on("no dose helps", run, audit) or _more_to_learn("no dose helps", run, audit)
    if any(word == "quality open" for word in words.values()) or (
        loss_of_quality(audit) == "not excluded" and not _weak(words)
    ):
        return _more_quality(run, audit)
    if _weak(words):
        return _stronger(run, [name for name, word in words.items() if word in _WEAK], audit)
    return NextStep(
        "the bias is down, and nothing else is worse: make it one model",
        () if run is None else ("merge", run, "--out", f"{run}-merged"),
    )


_WEAK = ("no change shown", "noise not excluded")


def _weak(words: Mapping[str, str]) -> bool:
    return any(word in _WEAK for word in words.values())


def _again(run: str | None, *settings: str) -> tuple[str, ...]:
    """The same run with other settings, in a folder of its own, by the last word; none if the run is not known."""
    *own, name = settings
    return () if run is None else ("train", run, *own, f"run.folder={run}-{name}")


def _less(run: str | None, audit: AuditResult) -> NextStep:
    """A training that teaches people's share or ties and keeps the rest, if quality fell with it, which a dose seldom brings back; else a dose by
    votes, for a tie without votes; half of it if there are too few texts to choose by."""
    if run is None:
        return NextStep("apply less of it: a smaller dose")
    if quality_fall(audit) and (step := _held_on("it is too much, and quality fell with it", run, audit)):
        return step
    if audit.dose is not None:
        half = audit.dose.chosen / 2
        words = ("merge", run, "--dose", f"{half:g}", "--out", f"{run}-dose-{half:g}")
        return NextStep("the dose that was chosen is too much: apply half", words)
    targets = [name for name, skew in audit.skew.items() if skew.target]
    quality = audit.quality is None or audit.quality.last.n_prompts >= PROMPTS_TO_CHOOSE
    if quality and any(_chooses(name, audit) for name in targets):
        return NextStep("it is too much: choose the dose by the votes", ("dose", run))
    if quality and any(audit.skew[name].before.n_prompts >= PROMPTS_TO_CHOOSE for name in targets):
        return NextStep(
            "it is too much: choose the dose at which the bias makes no difference", ("dose", run, "dose.aim=tie")
        )
    return NextStep("it is too much: apply half of it", ("merge", run, "--dose", "0.5", "--out", f"{run}-dose-0.5"))


def _held_on(why: str, run: str | None, audit: AuditResult) -> NextStep | None:
    """The training again, towards the share that people give the bias (a tie without enough votes), with the rest kept; None if it was taught so."""
    if audit.run is None or "keep" in str(audit.run.settings.get("objectives")):
        return None
    targets = [name for name, skew in audit.skew.items() if skew.target]
    voted = [audit.votes[name].human_skew.n_prompts for name in targets if name in audit.votes]
    if len(voted) == len(targets) and min(voted) >= 3 * PROMPTS_TO_CHOOSE:  # of which about half set the target
        objectives, name = "objectives=[{kind: shift, target: people}, keep]", "people"
        teach = "teach the share that people give the bias by half of the votes, and keep the rest"
    else:
        objectives, name = "objectives=[neutral, keep]", "tie"
        teach = "teach that the bias makes no difference, and keep the rest"
    return NextStep(f"{why}: {teach}", _again(run, objectives, "synthesize.supplementary=100", name))


def _more_quality(run: str | None, audit: AuditResult) -> NextStep:
    """A loss of quality is not excluded: as many pairs as that takes."""
    needed = triples_for_change(TOLERATED_LOSS, 0.1)
    if audit.quality is None:
        return NextStep(
            "quality was not measured: do so, on pairs of your own or the embedded ones",
            () if run is None else ("train", run, "audit.quality=embedded"),
        )
    why = f"a loss of quality is open: about {needed} pairs are needed"
    if run is not None and audit.available_quality > audit.quality.last.n:
        return NextStep(f"{why}, {audit.available_quality} are there", ("train", run, "audit.max_quality=null"))
    return NextStep(f"{why}, {audit.quality.last.n} are there; for other widths", ("samples", f"{TOLERATED_LOSS:g}"))


def _stronger(run: str | None, names: Sequence[str], audit: AuditResult) -> NextStep:
    """More contrasts if a change could hide in the interval; else more to learn from."""
    mean, needed = of_mean(audit), triples_for_change(TOLERATED_LOSS, _FLIPPED)
    changes = [change for name in names if isinstance(change := mean.skew[name].change, Estimate)]
    skew = audit.skew[names[0]]
    if any(_half(change) > WIDE for change in changes):
        needed = triples_for_change(WIDE, _FLIPPED)
        return _drawn_again(run, f"no change is shown; {POINTS} need {needed} contrasts", skew, needed)
    shown = all(training_word(name, audit) == "noise not excluded" for name in names)
    return _more_to_learn("noise is not excluded" if shown else "no change is shown", run, audit)


def _nothing_before(run: str | None, names: Sequence[str], audit: AuditResult) -> NextStep:
    """The model before is not shown to prefer the biases: more contrasts may show that it does; with enough, nothing is left to do."""
    why = f"before the training the model is not shown to prefer {listed(list(names[:2]))}"
    wide = [name for name in names if _half(_share(name, audit)) > WIDE]
    if not wide:
        return NextStep(f"nothing needs doing: {why}")
    needed = triples_for_share(WIDE)
    return _drawn_again(run, f"{why}; {POINTS} need {needed} contrasts", audit.skew[wide[0]], needed)


def _drawn_again(run: str | None, why: str, skew: BiasSkew, needed: int) -> NextStep:
    """So many contrasts if more are there than were drawn; else how many other widths need."""
    if run is not None and skew.available > skew.before.n:
        return NextStep(f"{why}, {skew.available} are there", ("train", run, f"audit.max_contrasts={needed}"))
    return other_widths(f"{why}, {skew.before.n} are there")


def _more_to_learn(why: str, run: str | None, audit: AuditResult) -> NextStep:
    """More pairs, if some were not drawn or not rewritten; else twice the epochs."""
    made, settings = audit.stages.synthesize, {} if audit.run is None else audit.run.settings
    more = [] if value_at(settings, "data", "max_pairs") is None else ["data.max_pairs=null"]
    if made and any(own.eligible > own.tried for own in made.biases.values()):
        more.append("synthesize.counterfactuals=null")
    if more:
        return NextStep(f"{why}: teach it on more pairs", _again(run, *more, "more"))
    epochs = value_at(settings, "train", "num_train_epochs") or 3
    twice = f"train.num_train_epochs={2 * float(str(epochs)):g}"
    return NextStep(f"{why}: teach it for more epochs", _again(run, twice, "more"))


# Words of commands.


def _references(names: Sequence[str], audit: AuditResult) -> list[str]:
    """Biases as a command takes them: those of files by the file that the run's settings name."""
    given = [] if audit.run is None else audit.run.settings.get("biases")
    known = zip((bias.name for bias in audit.biases), given if isinstance(given, list) else [], strict=False)
    files = {name: str(reference) for name, reference in known if str(reference).endswith((".yaml", ".yml"))}
    return [files.get(name, name) for name in names]


def _flags(biases: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for bias in biases for word in ("--bias", bias))


def _given(
    audit: AuditResult, *but: str, biases: bool = True, out: bool = True, contrasts: int | None = None
) -> tuple[str, ...]:
    """Options and settings of an audit of a model as they were given, without those of the section `audit` in `but`; `contrasts` of each
    bias in place of fewer. Where answers cost calls, a limit of the rest stays."""
    settings: Any = {} if audit.run is None else audit.run.settings
    section = settings.get("audit") or _sources(audit)
    names = settings.get("biases") or [bias.name for bias in audit.biases if bias.name not in SECOND_TURNS.values()]
    words = list(_flags(names) if biases and tuple(names) != EMBEDDED_BIASES else ())
    most = "max_triples" if section.get("contrasts") is None else "max_contrasts"
    own, *others = (section.get(key) for key in _LIMITS)
    limit = others[0] if own is not None and len({*others}) == 1 else None
    apart = scorer_kind(audit.model.name).asks_llm or own != limit
    if limit is not None:
        words += ["--limit", str(limit if apart or contrasts is None else max(limit, contrasts))]
    if contrasts is not None and (limit is None or apart):
        words.append(f"audit.{most}={contrasts}")
    of_limit = () if limit is None else _LIMITS if own == limit else _LIMITS[1:]
    default = AuditSection().model_dump(mode="json")
    for key, value in section.items():
        if key in but or key == "preset" or value == default.get(key):
            continue
        if key in _OPTIONS:
            words += [f"--{key}", "none" if value is None else str(value)]
        elif key not in of_limit and (contrasts is None or key != most):
            words.append(f"audit.{key}={written(value)}")
    if (seed := settings.get("seed", 42)) != 42:
        words += ["--seed", str(seed)]
    folder = (settings.get("run") or {}).get("folder")
    default_folder = of_limit_alone(Path("runs") / str(settings.get("name")), limit)
    if out and folder and folder != default_folder and not str(folder).startswith(f"{default_folder}-of-"):
        words += ["--out", str(folder)]
    return tuple(words)


def _beside(audit: AuditResult, name: str) -> tuple[str, ...]:
    """A folder next to that of the audit, which is kept."""
    return ("--out", f"{f'runs/{audit.recipe}' if audit.run is None else audit.run.folder}-{name}")


def _asked(audit: AuditResult, sections: Sequence[str] = JUDGED) -> list[str]:
    """Settings by which the model was read or asked, as far as they differ from the defaults."""
    if audit.run is not None and audit.run.settings:
        with suppress(ValidationError):  # of another version
            return given_words(Recipe.model_validate(audit.run.settings), sections)
    return []


def _data_words(audit: AuditResult, keys: Sequence[str] = _DATA) -> tuple[str, ...]:
    """Data of the audit that are not the embedded ones."""
    settings = {} if audit.run is None else audit.run.settings.get("audit")
    given: Mapping[str, Any] = settings if isinstance(settings, Mapping) and settings else _sources(audit)
    default = AuditSection().model_dump(mode="json")
    return tuple(
        f"audit.{key}={written(given[key])}"
        for key in keys
        if given.get(key) is not None and given[key] != default[key]
    )


def _sources(audit: AuditResult) -> Mapping[str, Any]:
    """The data of an audit whose run is not known."""
    own = {key: getattr(audit.sources, key) for key in ("contrasts", "votes", "verdicts", "quality")}
    return own | {"contrasts": None if own["contrasts"] == OF_TRIPLES else own["contrasts"]}
