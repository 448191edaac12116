"""External scorers (servers, functions, LLM judges), and the registry of scorers by the form of their names."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import numpy as np

from cda.data.scores import load_scores
from cda.errors import ModelError
from cda.files.jsonl import read_json, write_json
from cda.files.paths import user_path
from cda.files.reads import changed_reads
from cda.launch import say
from cda.llm.money import request_tokens
from cda.llm.protocol import LLM, Request
from cda.models.config import ModelSpec
from cda.models.load import load_template
from cda.models.own_files import content_of
from cda.models.template import Template
from cda.recipe.load import Opened
from cda.records import Pair
from cda.report.numbers import listed
from cda.resources.artifacts import shown_path, shown_target
from cda.resources.dry_run import only_noted
from cda.resources.llm_access import LlmAccess, Planned, Step, asked_at, confirm_all, llm_client, llm_problems
from cda.resources.named_scorer import (
    NamedScorer,
    Rewarded,
    ScorerSettings,
    Subject,
    has_turns,
    marks_note,
    reward_facts,
    texts_of,
    unread_error,
    verdict_facts,
)
from cda.resources.sources import prompt_name, source_fingerprint
from cda.results.facts import JudgeFacts, PanelFacts
from cda.run import fingerprint
from cda.scorers.compared import (
    Comparison,
    Preferences,
    Rewards,
    Text,
    TextScorer,
    as_panel,
    compare_distinct,
    distinct_texts,
)
from cda.scorers.dialects import ServedOptions
from cda.scorers.engine import ScoreCache, score_texts
from cda.scorers.judge import GradeScorer, LLMJudge, grade_request, judge_request
from cda.scorers.own import InMemoryModel, OwnPairwise, OwnPointwise, OwnScorer, own_scorer, stored_scorer
from cda.scorers.own_code import Watch
from cda.scorers.rendering import Rendering
from cda.scorers.served_client import ServedClient, ServedScorer

_ANSWER_TOKENS = {"before": 80, "after": 80, "none": 6}
"""Estimated output of one written grade or verdict, by the place of its reasons."""


class Grade(NamedScorer):
    """`grade:NAME`: an LLM that grades single answers."""

    elsewhere: ClassVar = {"workers": "; llm.concurrency says how much an LLM is asked at once"}
    how = "an LLM, one answer at a time"

    def calls(self, n_texts: float) -> float:
        return n_texts

    @property
    def access(self) -> LlmAccess:
        return self.settings.llm.named(self.section.llms[0])

    def told(self, pair: Pair) -> Iterator[tuple[str, Request]]:
        grade, told = self.settings.score.grade, self.settings.llm.prompts.grade
        prompt = f"(score.grade.prompt={prompt_name(grade.prompt, told)})"
        yield f"a grade of one answer {prompt}", grade_request(pair.prompt, pair.chosen, told, grade.by_token)

    def source(self) -> str:
        return self.name

    def deciding_settings(self) -> dict[str, Any]:
        options = self.settings.score.grade.model_dump(mode="json", exclude={"prompt"})
        return {"grade": options | {"told": self.settings.llm.prompts.grade.model_dump(mode="json")}}

    def missing(self) -> list[str]:
        return llm_problems(self.settings.llm.settings, self.section.llms)

    def planned(self, comparisons: Sequence[Comparison]) -> list[Step]:
        return self._steps(texts_of(comparisons))

    def text_scorer(self) -> GradeScorer:
        return self._scorer(self.access.client())

    def rewards(self, texts: Sequence[Text]) -> Rewarded:
        options, told, access = self.settings.score.grade, self.settings.llm.prompts.grade, self.access
        confirm_all(self._steps(texts), access.consent, access.opened)
        scorer = self._scorer(access.client())
        grades = replace(score_texts(scorer, texts), unit="grade")
        unread, n = len(grades.dropped), len(grades.by_text)
        notes = [*scorer.answered_by.notes(access.settings.asked.model or scorer.name), *marks_note(texts, has_turns)]
        if unread:
            why = ", ".join(f"{count} × {reason}" for reason, count in scorer.reasons.items())
            notes.append(f"{unread} of {n} texts have no readable grade and were left out ({why}).")
        if unread == n or unread > options.max_unread * n:
            for note in notes:  # another model behind the address may be why
                say(f"  {note}")
            raise unread_error(scorer, "grade", "texts", unread, n, options.max_unread, access.cache)
        kind = "means of one-token grades" if options.by_token else "written grades"
        prompt = prompt_name(options.prompt, told)
        facts = reward_facts(
            self.name,
            grades,
            how=f"Graded by {scorer.name} from {told.grade.lowest} to {told.grade.highest}, prompt {prompt}, {kind}",
            unit="grade",
            notes=tuple(notes),
            reasons=scorer.reasons,
        )
        return grades, facts.model_copy(update={"dropped": 0, "unread": unread})

    def _scorer(self, llm: LLM) -> GradeScorer:
        options = self.settings.score.grade
        return GradeScorer(
            llm, options.by_token, self.settings.llm.prompts.grade, f"score.grade.prompt: {options.prompt}"
        )

    def _steps(self, texts: Sequence[Text]) -> list[Step]:
        # Without the cache, so that a plan leaves no file behind.
        settings, told = self.access.settings, self.settings.llm.prompts.grade
        scorer = self._scorer(llm_client(settings))
        requests = [scorer.request(*text) for text in distinct_texts(texts).values()]
        if not requests:
            return []
        mean = sum(map(request_tokens, requests)) / len(requests)
        written = told.answer_tokens or _ANSWER_TOKENS[told.reasons]
        return [(settings, Planned("grading single answers", len(requests), mean, 1 if scorer.by_token else written))]


_CRITERION_TOKENS = {"before": 30, "after": 30, "none": 8}
"""Estimated further output for each criterion."""


class Served(NamedScorer):
    """`served:URL` or an http address: a reward model behind a server."""

    elsewhere: ClassVar = {
        "over_length": "; score.served.too_long says it of a server",
        "workers": "; score.served.concurrency says how many texts a server is asked at once",
    }
    versioned = True
    how = "a server"

    def calls(self, n_texts: float) -> float:
        return n_texts

    def identity(self) -> dict[str, Any]:
        return {"served_model": self.settings.score.served.model}

    def plain_name(self) -> str:
        parts = urlsplit(self.bare if "//" in self.bare else f"//{self.bare}")
        address = f"{parts.netloc.rpartition('@')[2]}{parts.path}"  # without a user's name and password
        return f"{address} {self.settings.score.served.model or ''}"

    def source(self) -> str:
        client = self._client()
        client.check(connects=not self._is_planned())  # asks for the models' names, which are part of the settings
        tokenizer = self.settings.score.served.tokenizer
        return fingerprint(
            [client.settings, content_of(str(user_path(tokenizer)), None)] if tokenizer else client.settings
        )

    def deciding_settings(self) -> dict[str, Any]:
        served = self.settings.score.served.model_dump(mode="json", exclude={"concurrency", "api_key_env", "check_raw"})
        # Left out if unset, as before there were any, so that finished stages stay as they are.
        later = {"dialect": "auto", "tokenizer": None}
        asked = {name: value for name, value in served.items() if name not in later or value != later[name]}
        return {"served": asked} | self.settings.score.model_dump(mode="json", include={"scorer_version"})

    def missing(self) -> list[str]:
        return self._client().check(connects=not self._is_planned())

    def _is_planned(self) -> bool:
        return only_noted(f"{self.name}: the server is asked what it is when the run begins, and not for a plan")

    def rewards(self, texts: Sequence[Text]) -> Rewarded:
        client = self._client()
        client.check()  # as in `source`
        scorer = ServedScorer(client, "  scoring", check_template=self.settings.score.self_check)
        scores = _kept_until_done(self, scorer, client.settings, texts)
        notes = (" ".join([*client.notes(), *scorer.notes]), *marks_note(texts, client.has_marks))
        facts = reward_facts(self.name, scores, how=f"Scored by {self.bare}", notes=notes)
        return scores, facts.model_copy(update={"truncated": max(facts.truncated, scorer.n_truncated)})

    def text_scorer(self) -> ServedScorer:
        client = self._client()
        client.check()  # as in `source`
        return ServedScorer(client)

    def _client(self) -> ServedClient:
        served = self.settings.score.served
        return ServedClient(self.bare, served, rendering=self._rendering(served))

    def _rendering(self, served: ServedOptions) -> Rendering | None:
        """The named tokenizer, opened once in a run."""
        if served.tokenizer is None:
            return None
        limit, name = served.truncate_tokens or sys.maxsize, str(user_path(served.tokenizer))
        spec = ModelSpec(name, max_length_tokens=limit, trust_remote_code=self.section.trust_remote_code).pinned()

        def opened() -> Template:
            template = load_template(spec)
            template.max_length_tokens = limit  # the server knows its own, and says which texts are longer
            return template

        return Rendering(
            self.settings.llm.opened.once(("tokenizer", name, limit), opened), shown_path(served.tokenizer)
        )


class Function(NamedScorer):
    """`package.module:function` or `file.py:function`: the user's own; also one given in memory."""

    versioned = True
    how = "code of your own"

    def calls(self, n_texts: float) -> float:  # noqa: ARG002
        return 0  # scored at once, without a bar

    def plain_name(self) -> str:
        return self.name.rpartition("/")[2]

    @property
    def own(self) -> OwnScorer:
        """The scorer in memory, or the function of this name, whose file runs once in a run."""
        return self.settings.llm.opened.once(("scorer", self.name), self._load)

    def _load(self) -> OwnScorer:
        scorer = own_scorer(self.name)
        watched(self.settings.llm.opened)[self.name] = scorer.code.watch
        return scorer

    @property
    def compares(self) -> bool:
        return isinstance(self.own, OwnPairwise)

    def pairwise(self, both_orders: bool = False) -> OwnPairwise:
        assert isinstance(self.own, OwnPairwise)
        return replace(self.own, both_orders=both_orders)

    def source(self) -> str:
        return fingerprint(self.own.settings)

    def deciding_settings(self) -> dict[str, Any]:
        return self.settings.score.model_dump(mode="json", include={"scorer_version"})

    def missing(self) -> list[str]:
        _ = self.own
        return []

    def rewards(self, texts: Sequence[Text]) -> Rewarded:
        scorer = self.own
        assert not isinstance(scorer, OwnPairwise)
        scores = _kept_until_done(self, scorer, scorer.settings, texts)
        return scores, reward_facts(self.name, scores, how=scorer.how, unnamed=self.subject.unnamed)

    def text_scorer(self) -> TextScorer:
        scorer = self.own
        assert not isinstance(scorer, OwnPairwise)
        return replace(scorer, label=None) if isinstance(scorer, InMemoryModel) else scorer

    @property
    def scored_as(self) -> str | None:
        return None if "in memory" in self.own.settings else super().scored_as

    def preferences(self, comparisons: Sequence[Comparison]) -> tuple[Preferences, JudgeFacts]:
        function = self.pairwise()
        preferences = compare_distinct(function, comparisons)
        if function.orders.n_unread == len(preferences.by_comparison):
            raise ModelError(f"{function.name}: no preference (NaN) on any of {function.orders.n_unread} comparisons")
        facts = verdict_facts(function, self.name, preferences)
        return preferences, facts.model_copy(update={"unnamed": self.subject.unnamed})


class Scores(Function):
    """`scores:FILE`: rewards of texts, or preferences between two, that are in a file."""

    versioned = False
    how = "scores of a file"

    def plain_name(self) -> str:
        return Path(self.bare).stem

    def _load(self) -> OwnScorer:
        return stored_scorer(shown_target(self.name), load_scores(self.bare))

    def source(self) -> str:
        return source_fingerprint(self.bare)

    def deciding_settings(self) -> dict[str, Any]:
        return {}

    @property
    def scored_as(self) -> str | None:
        return fingerprint([self.source(), self.deciding_settings()])


def watched(opened: Opened) -> dict[str, Watch]:
    """What the functions of the user read in a run, by their names."""
    return opened.once("watched", dict)


def _kept_until_done(
    named: NamedScorer, scorer: TextScorer, settings: Mapping[str, object], texts: Sequence[Text]
) -> Rewards:
    """Scores by a server or function, which can change unseen behind its address or name: they are kept after a failure only."""
    # Nothing tells an object in memory from another of its name, so that its scores are not kept at all.
    path = None
    if "in memory" not in settings and named.settings.cache is not None:
        run_path = named.settings.run_path
        path = run_path.parent / f".{run_path.name}-{fingerprint([named.subject.label, named.name])}.sqlite"
    n_kept, scope = 0, fingerprint([named.section.kind.name, dict(settings), named.settings.score.scorer_version])
    if path is not None:
        _drop_outdated(path, scorer.code.watch if isinstance(scorer, OwnPointwise) else None, named.settings.fresh)
    try:
        with ScoreCache(path) if path else nullcontext() as cache:
            try:
                return score_texts(scorer, texts, cache=cache, scope=scope)
            except BaseException:
                n_kept = len(cache) if cache is not None else 0
                raise
    finally:
        if path and n_kept:
            say(f"  {n_kept} of {len(set(texts))} scores are kept in {path}: the same command goes on from them")
        elif path:
            _remove(path)


def _drop_outdated(path: Path, watch: Watch | None, fresh: bool) -> None:
    """Remove kept scores if something that the function read for them has changed since; note what it reads from now on."""
    beside = path.with_name(f"{path.name}-read.json")
    changed = changed_reads(read_json(beside)) if beside.exists() else []
    if changed:
        say(f"  {path}: its scores are not used, since {changed[0]} has changed")
    if changed or fresh:
        _remove(path)
    if watch is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        watch.tell = lambda read: write_json(beside, read)
        watch.tell(watch.read)


def _remove(path: Path) -> None:
    """A file of scores, and those beside it."""
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink(missing_ok=True)


class Judge(NamedScorer):
    """`judge:NAME` or `judge:NAME,NAME`: an LLM judge, or a panel of several."""

    elsewhere: ClassVar = {"workers": "; llm.concurrency says how much a judge is asked at once"}

    @property
    def how(self) -> str:
        told, n_judges = self.settings.llm.prompts.judge, len(self.section.llms)
        panel = f"a panel of {n_judges} judges, each " if n_judges > 1 else ""
        by = f", overall and by {listed([each.name for each in told.criteria])}" if told.criteria else ""
        return f"{panel}an LLM, in {'both orders' if told.orders == 'both' else 'one order'}{self._times}{by}"

    @property
    def _times(self) -> str:
        repeats = self.settings.score.judge.repeats
        return f", {repeats} times each" if repeats > 1 else ""

    def calls(self, n_texts: float) -> float:
        n_orders = 2 if self.settings.llm.prompts.judge.orders == "both" else 1
        return n_texts / 2 * n_orders * self.settings.score.judge.repeats * len(self.section.llms)

    def told(self, pair: Pair) -> Iterator[tuple[str, Request]]:
        judge, told = self.settings.score.judge, self.settings.llm.prompts.judge
        ask = partial(judge_request, pair.prompt, pair.chosen, pair.rejected, judge.ties, told, judge.by_token)
        orders = "and once more in the other order" if told.orders == "both" else "in one order, drawn"
        orders += self._times
        prompt = f"(score.judge.prompt={prompt_name(judge.prompt, told)})"
        yield f"a comparison, {orders} {prompt}", ask()
        for criterion in told.criteria if judge.by_token else ():
            yield f"a comparison by {criterion.name}, {orders} {prompt}", ask(criterion)

    def pairwise(self, both_orders: bool = False) -> LLMJudge:
        """The judge of the access's own model."""
        return replace(self._judge(self.settings.llm.client()), both_orders=both_orders)

    def source(self) -> str:
        return self.name

    def deciding_settings(self) -> dict[str, object]:
        # The prompt's content holds the place of reasons, orders and criteria, whichever file or setting they come from.
        options = self.settings.score.judge.model_dump(
            mode="json", exclude={"prompt", "reasons", "orders", "criteria", "panel"}
        )
        if len(self.section.llms) > 1 and self.settings.score.judge.panel != "mean":
            options["panel"] = self.settings.score.judge.panel
        return {"judge": options | {"told": self.settings.llm.prompts.judge.model_dump(mode="json")}}

    def missing(self) -> list[str]:
        return llm_problems(self.settings.llm.settings, self.section.llms)

    def preferences(self, comparisons: Sequence[Comparison]) -> tuple[Preferences, JudgeFacts | PanelFacts]:
        names, llm = self.section.llms, self.settings.llm
        confirm_all(self.planned(comparisons), llm.consent, llm.opened)
        if len(names) > 1:
            return self._panel(names, comparisons)
        return self._verdicts(self.pairwise(), self.name, comparisons, llm)

    def planned(self, comparisons: Sequence[Comparison]) -> list[Step]:
        """The calls of each judge that these comparisons take."""
        # Without the cache, so that a plan leaves no file behind.
        each = [self.settings.llm.named(name).settings for name in self.section.llms]
        return [(llm, _planned(self._judge(llm_client(llm)), comparisons)) for llm in each] if comparisons else []

    def _judge(self, llm: LLM) -> LLMJudge:
        options, instructions = self.settings.score.judge, self.settings.llm.prompts.judge
        source = f"score.judge.prompt: {options.prompt}"
        return LLMJudge(
            llm, options.ties, options.by_token, repeats=options.repeats, instructions=instructions, source=source
        )

    def _panel(self, names: Sequence[str], comparisons: Sequence[Comparison]) -> tuple[Preferences, PanelFacts]:
        """Every judge asked by itself; those who gave a verdict stand for all, by `score.judge.panel`."""
        llms = {name: self.settings.llm.named(name) for name in names}
        by_judge = {
            name: self._verdicts(self._judge(llm.client()), name, comparisons, llm) for name, llm in llms.items()
        }
        rule = self.settings.score.judge.panel
        panel = as_panel({name: preferences for name, (preferences, _) in by_judge.items()}, rule)
        verdicts = np.array([list(preferences.by_comparison.values()) for preferences, _ in by_judge.values()])
        n_given = (~np.isnan(verdicts)).sum(axis=0)
        facts = {name: facts for name, (_, facts) in by_judge.items()}
        told = {"orders", "repeats", "verdicts", "prompt", "verdict_reasons", "prompt_content", "criteria"}
        alike = facts[names[0]].model_dump(include=told)
        return panel, PanelFacts(
            name=self.name,
            kind="judge",
            **alike,
            rule=rule,
            comparisons=len(panel.by_comparison),
            unread=int((n_given == 0).sum()),
            notes=tuple(dict.fromkeys(note for judge in facts.values() for note in judge.notes)),
            partly_judged=int(((n_given > 0) & (n_given < len(names))).sum()),
            judges=facts,
        )

    def _verdicts(
        self, judge: LLMJudge, name: str, comparisons: Sequence[Comparison], llm: LlmAccess
    ) -> tuple[Preferences, JudgeFacts]:
        options, instructions = self.settings.score.judge, judge.instructions
        preferences = compare_distinct(judge, comparisons)
        names = list(preferences.by_comparison)
        criteria = {
            criterion: Preferences(dict(zip(names, map(float, margins), strict=True)))
            for criterion, margins in judge.by_criterion.items()
        }
        unread, n = judge.orders.n_unread, len(names)
        # Before a failure too: another model behind the address may be why.
        notes = [
            *judge.answered_by.notes(llm.settings.asked.model or judge.name),
            *marks_note(texts_of(comparisons), has_turns),
        ]
        notes += _criteria_notes(name, judge, n)
        for note in notes:
            say(f"  {note}")
        if unread == n or unread > options.max_unread * n:
            raise unread_error(judge, "verdict", "comparisons", unread, n, options.max_unread, llm.cache)
        return replace(preferences, criteria=criteria), verdict_facts(judge, name, preferences).model_copy(
            update={
                "answered_by": judge.answered_by.models,
                "asked_at": asked_at(llm.settings),
                "notes": tuple(notes),
                "repeats": judge.repeats,
                "verdicts": "by token" if options.by_token else "written",
                "prompt": prompt_name(options.prompt, instructions),
                "verdict_reasons": "none" if options.by_token else instructions.reasons,
                "prompt_content": fingerprint(instructions.model_dump(mode="json")),
                "criteria": tuple(criteria),
            }
        )


def _criteria_notes(name: str, judge: LLMJudge, n: int) -> list[str]:
    """Criteria without a readable verdict on some of n comparisons."""
    unread = {criterion: int(np.isnan(margins).sum()) for criterion, margins in judge.by_criterion.items()}
    said = [f"on {criterion} for {missing}" for criterion, missing in unread.items() if missing]
    return [f"{name}: no readable verdict {listed(said)} of {n} comparisons."] if said else []


def _planned(judge: LLMJudge, comparisons: Sequence[Comparison]) -> Planned:
    """The calls that the comparisons need."""
    distinct, told = list(dict.fromkeys(comparisons)), judge.instructions
    requests = [request for comparison in distinct for request in judge.requests(*comparison)]
    mean, n_criteria = sum(map(request_tokens, requests)) / len(requests), len(told.criteria)
    written = told.answer_tokens or _ANSWER_TOKENS[told.reasons] + n_criteria * _CRITERION_TOKENS[told.reasons]
    n, orders = (len(requests), "one order") if told.orders == "one" else (2 * len(requests), "both orders")
    by = f", overall and by {n_criteria} {'criterion' if n_criteria == 1 else 'criteria'}" if n_criteria else ""
    times = f", {judge.repeats} times each" if judge.repeats > 1 else ""
    return Planned(f"judging, each in {orders}{times}{by}", n, mean, 1 if judge.by_token else written)


def open_scorer(
    subject: Subject, settings: ScorerSettings, launched: Path | None = None, together: Sequence[Text] = ()
) -> NamedScorer:
    """The scorer that a model's name stands for; a model is loaded only when it scores. Arguments as of `NamedScorer`."""
    module, _, name = subject.section.kind.opened_by.partition(":")
    kind: type[NamedScorer] = getattr(import_module(module), name)
    return kind(subject, settings, launched, together)


def planned_verdicts(
    subjects: Sequence[Subject], settings: ScorerSettings, comparisons: Sequence[Comparison]
) -> list[Step]:
    """The calls that these comparisons take of each LLM among the subjects, cached answers not deducted."""
    return [step for subject in subjects for step in open_scorer(subject, settings).planned(comparisons)]
