"""What a model's name stands for, opened and asked: the one place that knows every kind of scorer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

import numpy as np

from cda.config.load import LoadedRecipe
from cda.config.scoring import bare_name, judges_of, kind_of
from cda.errors import DataError, LLMError, ModelError
from cda.inert import TURNS
from cda.launch import say
from cda.llm.money import request_tokens
from cda.models.load import free_memory
from cda.records import Prompt
from cda.results.facts import JudgeFacts, PanelFacts, RewardModelFacts, Scorer
from cda.run import fingerprint
from cda.score.cache import ScoreCache
from cda.score.compared import Compared, Comparison, Preferences, as_panel, compare_distinct
from cda.score.distinct import Text, distinct_texts
from cda.score.engine import Scores, one_reward_each, score_texts
from cda.score.in_memory import InMemoryModel
from cda.score.judge import LLMJudge
from cda.score.own import OwnPairwise, OwnPointwise
from cda.score.self_check import self_check
from cda.score.served import ServedScorer
from cda.stages.causal_scorers import log_ratio_scope, log_ratio_scorer
from cda.stages.classifier_scorers import cache_file, classifier_scores, load_dosed, told_cached
from cda.stages.scorer_sources import own, served_scorer
from cda.stages.sources import answered_notes, cache_path, model_spec, open_llm, prompt_name, run_path, with_llm
from cda.stages.spending import Planned, confirm, confirm_all
from cda.stages.subjects import Subject

_VERDICT_TOKENS = {"before": 80, "after": 80, "none": 6}
"""Output of one written verdict, estimated, by where its reasons stand."""


def compare(
    subject: Subject,
    comparisons: Sequence[Comparison],
    loaded: LoadedRecipe,
    launched: Path | None = None,
    together: Sequence[Text] = (),
) -> tuple[Compared, Scorer]:
    """Margins of all comparisons, and how they came about.

    Args:
        subject: What is asked.
        comparisons: Prompt and two texts.
        loaded: How it is asked.
        launched: Folder in which the processes of a launch hand each other scores of a classifier. All of them have to call
            this then, with the same comparisons.
        together: Texts among these that were scored as a set of their own before, in its order. Below fp32 a score moves with
            its batch-mates, and is found in the cache as part of the same set alone. Of a classifier only.

    Returns:
        What was said of the comparisons; and how it came about, for the report.

    Raises:
        CdaError: The model cannot be opened, asked, or its answers cannot be used.
    """
    kind = kind_of(subject.name)
    if kind == "judge":
        judges = judges_of(subject.name)
        if len(judges) == 1:
            return _judged(subject.name, comparisons, loaded)
        return _judged_by_panel(subject.name, judges, comparisons, loaded)
    if kind == "function":
        function = own(subject.name, loaded)
        if isinstance(function, OwnPairwise):
            return _own_preferences(function, subject.name, comparisons)
    scores, facts = score(subject, texts_of(comparisons), loaded, launched, together)
    return scores.compared(), facts


def score(
    subject: Subject,
    texts: Sequence[Text],
    loaded: LoadedRecipe,
    launched: Path | None = None,
    together: Sequence[Text] = (),
) -> tuple[Scores, RewardModelFacts]:
    """Reward of every distinct text by anything that gives rewards, and how they came about; see `compare`.

    Raises:
        CdaError: As `compare`; and ModelError where it only compares.
    """
    if kind_of(subject.name) == "classifier":
        scores, facts = _with_classifier(subject, texts, loaded, launched, together)
    else:
        scores, facts = _otherwise(subject, texts, loaded)
    if not scores.rewards:
        raise DataError(f"{subject.name}: none of {scores.n_texts} texts has a reward; all were too long for it")
    _tell(facts)
    return scores, facts


def texts_of(comparisons: Sequence[Comparison]) -> list[Text]:
    """Both sides of every comparison."""
    return [(prompt, text) for prompt, first, second in comparisons for text in (first, second)]


def _with_classifier(
    subject: Subject, texts: Sequence[Text], loaded: LoadedRecipe, launched: Path | None, together: Sequence[Text]
) -> tuple[Scores, RewardModelFacts]:
    """Rewards by a sequence classifier, each text once, what earlier runs scored taken from the cache."""
    spec = model_spec(subject.section)
    reward_model = load_dosed(spec, subject.adapter, subject.dose)
    notes = self_check(reward_model) if loaded.recipe.score.self_check else []
    apart = set(together)
    sets = [list(together), [text for text in texts if text not in apart]] if together else [list(texts)]
    scores = _joined(
        [
            classifier_scores(
                reward_model,
                one,
                loaded,
                f"  scoring {subject.label}",
                adapter=subject.adapter,
                dose=subject.dose,
                launched=launched,
            )
            for one in sets
            if one
        ]
    )
    template = reward_model.template
    facts = RewardModelFacts(
        name=subject.name,
        kind="reward model",
        precision=spec.precision,
        form=template.form,
        max_length_tokens=template.max_length_tokens,
        **_counts(scores),
        notes=(*notes, *_marks_note(texts, template.has_marks)),
    )
    del reward_model
    free_memory()
    return scores, facts


def _joined(parts: Sequence[Scores]) -> Scores:
    """Scores of several sets of texts as those of one."""
    rewards = {name: reward for one in parts for name, reward in one.rewards.items()}
    read = {name: cut for one in parts for name, cut in one.read.items()}
    dropped = tuple(name for one in parts for name in one.dropped)
    tokens = {name: read for one in parts for name, read in one.tokens.items()}
    n_cached = sum(one.n_cached for one in parts)
    return Scores(one_reward_each(rewards, tokens), read, dropped, n_cached, tokens)


def _otherwise(subject: Subject, texts: Sequence[Text], loaded: LoadedRecipe) -> tuple[Scores, RewardModelFacts]:
    kind = kind_of(subject.name)
    if kind in ("log-ratio", "steered"):
        return _with_log_ratio(subject, texts, loaded)
    scorer: OwnPointwise | InMemoryModel | ServedScorer
    if kind == "function":
        function = own(subject.name, loaded)
        if isinstance(function, OwnPairwise):
            raise ModelError(
                f"{subject.name}: compares two answers and gives no reward of single ones, which is needed here"
            )
        scorer, settings, how = function, function.settings, function.how
    else:
        scorer = served_scorer(subject.section, loaded)
        scorer.check()  # asks for the models' names, which are part of the settings
        settings, how = scorer.settings, f"Scored by {bare_name(subject.name)}"
    # What stands behind an address or a function can change unseen: their scores outlive a failure, and no success.
    # Nothing tells an object in memory from another of its name, so that its scores are not kept at all.
    path = None if "in memory" in settings else unfinished_scores(subject, loaded)
    n_kept = 0
    try:
        with ScoreCache(path) if path else nullcontext() as cache:
            try:
                scores = score_texts(scorer, texts, cache=cache, scope=fingerprint([kind, dict(settings)]))
            except BaseException:
                n_kept = len(cache) if cache is not None else 0
                raise
    finally:
        if path and n_kept:
            say(f"  {n_kept} of {len(set(texts))} scores are kept in {path}: the same command goes on from them")
        elif path:
            for file in path.parent.glob(f"{path.name}*"):
                file.unlink(missing_ok=True)
    counts = _counts(scores)
    counts["truncated"] = max(counts["truncated"], getattr(scorer, "n_truncated", 0))
    notes = _marks_note(texts, _has_turns) if kind == "served" else ()
    return scores, RewardModelFacts(name=subject.name, kind="reward model", how=how, **counts, notes=tuple(notes))


def _with_log_ratio(subject: Subject, texts: Sequence[Text], loaded: LoadedRecipe) -> tuple[Scores, RewardModelFacts]:
    scorer = log_ratio_scorer(subject.section, loaded)
    path = cache_file(loaded)
    scope = log_ratio_scope(scorer, subject.section, loaded) if path else None
    with ScoreCache(path) if path else nullcontext() as cache:
        scores = score_texts(replace(scorer, beta=1.0), texts, cache=cache, scope=scope).times(scorer.beta)
    spec = scorer.policy.causal.spec
    facts = RewardModelFacts(
        name=subject.name,
        kind="reward model",
        how=f"Scored as {scorer.unit}: {scorer.name}, in {spec.precision}",
        max_length_tokens=scorer.policy.causal.template.max_length_tokens,
        unit=scorer.unit,
        **_counts(scores),
        notes=(*scorer.notes(), *_marks_note(texts, scorer.policy.causal.template.has_marks)),
    )
    del scorer
    free_memory()
    return scores, facts


def _judged(name: str, comparisons: Sequence[Comparison], loaded: LoadedRecipe) -> tuple[Preferences, JudgeFacts]:
    judge = _judge(loaded)
    confirm(_judging(judge, comparisons), loaded)
    return _verdicts(judge, name, comparisons, loaded)


def _judged_by_panel(
    panel_name: str, names: Sequence[str], comparisons: Sequence[Comparison], loaded: LoadedRecipe
) -> tuple[Preferences, PanelFacts]:
    """Every judge asked by itself, agreed to at once; the mean of those who gave a verdict stands for all."""
    asked = {name: with_llm(loaded, name) for name in names}
    judges = {name: _judge(one) for name, one in asked.items()}
    confirm_all([(asked[name].recipe.llm, _judging(judge, comparisons)) for name, judge in judges.items()], loaded)
    found = {name: _verdicts(judge, name, comparisons, asked[name]) for name, judge in judges.items()}
    panel = as_panel({name: preferences for name, (preferences, _) in found.items()})
    verdicts = np.array([list(preferences.by_comparison.values()) for preferences, _ in found.values()])
    n_given = (~np.isnan(verdicts)).sum(axis=0)
    each = {name: facts for name, (_, facts) in found.items()}
    first = each[names[0]]
    return panel, PanelFacts(
        name=panel_name,
        kind="judge",
        orders=first.orders,
        verdicts=first.verdicts,
        prompt=first.prompt,
        verdict_reasons=first.verdict_reasons,
        comparisons=len(panel.by_comparison),
        unread=int((n_given == 0).sum()),
        notes=tuple(dict.fromkeys(note for facts in each.values() for note in facts.notes)),
        partly_judged=int(((n_given > 0) & (n_given < len(names))).sum()),
        judges=each,
    )


def _judge(loaded: LoadedRecipe) -> LLMJudge:
    options = loaded.recipe.score.judge
    return LLMJudge(open_llm(loaded), ties=options.ties, by_token=options.by_token, told=loaded.prompts.judge)


def _judging(judge: LLMJudge, comparisons: Sequence[Comparison]) -> Planned:
    """The calls that the comparisons need."""
    distinct = list(dict.fromkeys(comparisons))
    mean = sum(request_tokens(judge.request(*one)) for one in distinct) / len(distinct)
    said = 1 if judge.by_token else _VERDICT_TOKENS[judge.told.reasons]
    one_order = judge.told.orders == "one"
    n, orders = (len(distinct), "one order") if one_order else (2 * len(distinct), "both orders")
    return Planned(f"judging, each in {orders}", n, mean, said)


def _verdicts(
    judge: LLMJudge, name: str, comparisons: Sequence[Comparison], loaded: LoadedRecipe
) -> tuple[Preferences, JudgeFacts]:
    """What a judge says, once what it costs is agreed to."""
    options, told = loaded.recipe.score.judge, judge.told
    preferences = compare_distinct(judge, comparisons)
    unread, asked = judge.orders.n_unread, len(preferences.by_comparison)
    # Before a failure too: another model behind the address may be why.
    notes = [*answered_notes(loaded, judge.answered_by), *_marks_note(texts_of(comparisons), _has_turns)]
    for note in notes:
        say(f"  {note}")
    if unread == asked or unread > options.max_unread * asked:
        why = ", ".join(f"{count} × {reason}" for reason, count in judge.reasons.items())
        most = "" if unread == asked else f", more than score.judge.max_unread={options.max_unread:g} allows"
        raise LLMError(
            f"{judge.name}: no readable verdict on {unread} of {asked} comparisons{most} ({why}). Answers and lasting failures "
            f"are kept in {cache_path(loaded)}: llm.ask_failures_again=true asks again what was refused, filtered or cut off; "
            "an answer without a verdict comes again until the prompt, the model or llm.seed is another, or the file is moved "
            "away"
        )
    return preferences, _verdict_facts(judge, name, preferences).model_copy(
        update={
            "answered_by": judge.answered_by.models,
            "notes": tuple(notes),
            "verdicts": "by token" if options.by_token else "written",
            "prompt": prompt_name(options.prompt, told),
            "verdict_reasons": "none" if options.by_token else told.reasons,
        }
    )


def _own_preferences(
    function: OwnPairwise, name: str, comparisons: Sequence[Comparison]
) -> tuple[Preferences, JudgeFacts]:
    preferences = compare_distinct(function, comparisons)
    if function.orders.n_unread == len(preferences.by_comparison):
        raise ModelError(f"{function.name}: no preference (NaN) on any of {function.orders.n_unread} comparisons")
    return preferences, _verdict_facts(function, name, preferences)


def _verdict_facts(judge: LLMJudge | OwnPairwise, name: str, preferences: Preferences) -> JudgeFacts:
    """Of anything that compares, in both orders or one."""
    return JudgeFacts(
        name=name,
        kind="judge",
        orders="one" if judge.orders.n_flipped is None else "both",
        comparisons=len(preferences.by_comparison),
        unread=judge.orders.n_unread,
        reasons=judge.reasons,
        half_read=judge.orders.n_half_read,
        flipped=judge.orders.n_flipped,
        position_bias=judge.orders.position_bias,
        position=judge.orders.position,
    )


def _has_turns(prompt: Prompt, response: str) -> bool:
    return any(TURNS.search(text) for text in (response, *(message.content for message in prompt)))


def _marks_note(texts: Sequence[Text], has_marks: Callable[[Prompt, str], bool]) -> list[str]:
    """How many texts would speak to the model in another's turn, and what is done about it."""
    distinct = distinct_texts(texts).values()
    n_marked = sum(has_marks(*text) for text in distinct)
    return [
        f"{n_marked} of {len(distinct)} texts hold marks of chat templates, such as <|im_end|>. A space was put into each mark, "
        "so that it is read as text and ends no turn."
    ] if n_marked else []  # fmt: skip


class _Counts(TypedDict):
    texts: int
    truncated: int
    dropped: int
    cached: int
    alike: int


def _counts(scores: Scores) -> _Counts:
    return {
        "texts": scores.n_texts,
        "truncated": scores.n_truncated,
        "dropped": len(scores.dropped),
        "cached": scores.n_cached,
        "alike": scores.n_alike,
    }


def _tell(facts: RewardModelFacts) -> None:
    for note in facts.notes:
        say(f"  {note}")
    if facts.cached:
        say(f"  {told_cached(facts.cached, facts.texts)}")
    if facts.alike:
        say(f"  {facts.alike} of {facts.texts} texts are the same token ids as another: scored once, and a tie with it")
    if facts.truncated:
        where = "" if facts.max_length_tokens is None else f" at {facts.max_length_tokens} tokens"
        say(f"  {facts.truncated} of {facts.texts} texts were cut{where}")
    if facts.dropped:
        say(f"  {facts.dropped} of {facts.texts} texts are too long for the model and were left out")


def shared_folder(loaded: LoadedRecipe) -> Path:
    """Where the processes of a launch hand each other scores, for commands that all of them run in the same way."""
    folder = run_path(loaded)
    return folder.parent / f".{folder.name}-scoring"


def unfinished_scores(subject: Subject, loaded: LoadedRecipe) -> Path | None:
    """File that keeps what a server or a function scored until all is there; None where the recipe wants no such file."""
    if cache_file(loaded) is None:
        return None
    folder = run_path(loaded)
    return folder.parent / f".{folder.name}-{fingerprint([subject.label, subject.name])}.sqlite"
