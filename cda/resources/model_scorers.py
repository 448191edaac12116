"""Scorers over local models: a sequence classifier, or a causal model against another or against its base."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from cda.data.load import looks_like_path
from cda.embedded.model import ADAPTERS, encoder_folder
from cda.errors import ModelError
from cda.files.paths import user_path
from cda.launch import on_one_machine, say
from cda.models.config import ModelSpec, compares_two, load_config
from cda.models.load import RewardModel, compile_base, free_memory, load_reward_model, load_template, without_adapter
from cda.models.own_files import content_of, is_cached
from cda.recipe.sections import LogRatioSection
from cda.resources.artifacts import shown_path
from cda.resources.named_scorer import (
    NamedScorer,
    Rewarded,
    ScorerSettings,
    as_folder,
    marks_note,
    reward_facts,
    texts_of,
    told_cached,
    verdict_facts,
)
from cda.resources.sources import model_kernels, model_source, model_spec
from cda.results.facts import JudgeFacts
from cda.run import file_fingerprint, fingerprint
from cda.scorers.classifier import PROBES, ClassifierScorer, LocalPairwise, in_order, self_check
from cda.scorers.compared import Comparison, OverLength, Preferences, Rewards, Text, compare_distinct
from cda.scorers.engine import ScoreCache, joined_rewards, scope_of, score_texts
from cda.scorers.log_ratio import LogRatioScorer, Policy, adapter_off
from cda.scorers.reading import described, summary
from cda.training.dose import DosedModel

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


class Classifier(NamedScorer):
    """A sequence classifier: hub id, folder, or `embedded`."""

    @property
    def public_name(self) -> str:
        return self.name if _is_hub_id(self.name) else f"local/{as_folder(_model_name(self.name))}"

    def source(self) -> str:
        kernels = model_kernels(self.section)
        return fingerprint(
            [model_source(self.section), model_spec(self.section).precision, *([kernels] if kernels else [])]
        )

    def deciding_settings(self) -> dict[str, Any]:
        return self.settings.score.model_dump(mode="json", include={"batch_tokens", "over_length"})

    @property
    def compares(self) -> bool:
        return self.name not in ADAPTERS and compares_two(model_spec(self.section))

    def missing(self) -> list[str]:
        if self.name in ADAPTERS:
            encoder_folder()
        elif looks_like_path(self.name):
            spec = model_spec(self.section)
            load_template(spec, load_config(spec, compares=self.subject.adapter is None))
        return []

    def read_lines(self) -> list[str]:
        if self.name in ADAPTERS or not (
            looks_like_path(self.name) or is_cached(self.name, model_spec(self.section).revision)
        ):
            return []
        return [f"reads       {described(model_spec(self.section))}"]

    def rewards(self, texts: Sequence[Text]) -> Rewarded:
        subject = self.subject
        reward_model, notes = self._loaded()
        spec = reward_model.spec
        apart = set(self.together)
        sets = [self.together, [text for text in texts if text not in apart]]
        score = partial(
            classifier_scores,
            reward_model,
            settings=self.settings,
            label=f"  scoring {subject.label}",
            adapter=subject.adapter,
            dose=subject.dose,
            launched=self.launched,
        )
        scores = joined_rewards(score(part) for part in sets if part)
        template = reward_model.template
        facts = reward_facts(
            self.name,
            scores,
            precision=spec.precision,
            form=template.form,
            max_length_tokens=template.max_length_tokens,
            notes=(
                *notes,
                *(spec.notes if subject.adapter is None else ()),
                *marks_note(texts, template.has_marks),
            ),
        )
        del reward_model
        free_memory()
        return scores, facts

    def pairwise(self, both_orders: bool = False) -> LocalPairwise:
        """The model, loaded for any number of comparisons."""
        return self._pairwise(self._loaded()[0], both_orders)

    def _pairwise(self, loaded: RewardModel, both_orders: bool = False) -> LocalPairwise:
        encoding = loaded.template.layout.encoding
        assert encoding is not None
        assert encoding.compares is not None
        label = f"  comparing with {self.subject.label}"
        score = partial(classifier_scores, loaded, settings=self.settings, label=label, launched=self.launched)
        return LocalPairwise(self.name, score, encoding.compares, both_orders)

    def preferences(self, comparisons: Sequence[Comparison]) -> tuple[Preferences, JudgeFacts]:
        loaded, notes = self._loaded()
        judge, spec, template = self._pairwise(loaded), loaded.spec, loaded.template
        preferences = compare_distinct(judge, comparisons)
        n, facts = len(preferences.by_comparison), verdict_facts(judge, self.name, preferences)
        if judge.orders.n_unread == n:
            why = ", ".join(f"{count} × {reason}" for reason, count in judge.reasons.items())
            raise ModelError(f"{self.name}: no preference on any of {n} comparisons: {why}")
        how = f"Compared in {spec.precision}, {template.form}; {judge.n_cut} of {n} comparisons cut at {template.max_length_tokens} tokens."
        notes += [
            how,
            *spec.notes,
            *marks_note(texts_of(comparisons), template.has_marks),
        ]
        for note in notes:
            say(f"  {note}")
        if judge.n_cached:
            say(f"  {told_cached(judge.n_cached, judge.n_texts)}")
        del loaded, judge
        free_memory()
        return preferences, facts.model_copy(update={"notes": tuple(notes)})

    def text_scorer(self) -> ClassifierScorer:
        reward_model, notes = self._loaded()
        for note in notes:
            say(f"  {note}")
        score = self.settings.score
        return ClassifierScorer(reward_model, score.batch_tokens, over_length=score.over_length, workers=score.workers)

    def _loaded(self) -> tuple[RewardModel, list[str]]:
        """The model with its adapter at the dose, and what its self-check says."""
        spec, subject = model_spec(self.section), self.subject
        reward_model = load_reward_model(spec, subject.adapter, compares=self.compares)
        if subject.adapter is not None and subject.dose != 1:
            DosedModel(reward_model).set(subject.dose)
        template, reading = reward_model.template, reward_model.reading
        if self.name not in ADAPTERS:
            say(f"  reads as {summary(without_adapter(reward_model.model), spec.precision, template, reading)}")
        notes = [*(reading.notes if reading is not None else ()), *template.own_notes()]
        if self.settings.score.self_check:
            probes = [in_order(prompt, "I do not know.", text) for prompt, text in PROBES] if self.compares else PROBES
            notes += self_check(reward_model, probes)
        if spec.compile:
            compile_base(reward_model)
        return reward_model, notes


def classifier_scores(
    reward_model: RewardModel,
    texts: Iterable[Text],
    settings: ScorerSettings,
    label: str | None,
    *,
    adapter: Path | None = None,
    dose: float = 1.0,
    over_length: OverLength | None = None,
    launched: Path | None = None,
) -> Rewards:
    """Reward of every distinct text as `score.*` says (`over_length` replaces its own), from the cache if known; no bar without
    `label`. `adapter` is loaded into `reward_model` at `dose`. `launched`: folder in which the processes of a launch share
    scores; all must then call this with the same texts."""
    score = settings.score
    # Several machines share no SQLite file; the scores of a launch are kept by its own files.
    path = settings.cache if on_one_machine() else None
    with ScoreCache(path) if path else nullcontext() as cache:
        return score_texts(
            ClassifierScorer(
                reward_model,
                score.batch_tokens,
                label,
                over_length=over_length or score.over_length,
                workers=score.workers,
            ),
            texts,
            cache=cache,
            scope=scope_of(reward_model, adapter, dose) if path or launched else None,
            launched=launched,
        )


class LogRatio(NamedScorer):
    """`dpo:POLICY,REFERENCE`: a causal language model against another, or against itself without its adapter."""

    @property
    def options(self) -> LogRatioSection:
        return self.settings.score.log_ratio

    @property
    def models(self) -> tuple[str, str | None]:
        """The policy, and the reference if one is named."""
        policy, _, reference = self.bare.partition(",")
        return policy, reference or None

    def specs(self) -> tuple[ModelSpec, ModelSpec | None]:
        """The policy, and the reference if one is named; the model's revision is the policy's alone."""
        policy, reference = self.models
        if reference is None:
            return self._spec(policy), None
        return self._spec(policy), self._spec(reference, revision=self.options.reference_revision)

    def identity(self) -> dict[str, Any]:
        options = self.options.model_dump(mode="json")
        return {"log_ratio": options | {"adapter": options["adapter"] and shown_path(options["adapter"])}}

    def plain_name(self) -> str:
        return _model_name(self.models[0])

    def source(self) -> str:
        settings = {
            "kind": self.section.kind.name,
            "models": [
                [content_of(spec.name_or_path, spec.revision), spec.revision, spec.precision]
                for spec in self.specs()
                if spec is not None
            ],
            "settings": self.options.model_dump(mode="json"),
            "files": [_content(self.options.adapter)],
        }
        return fingerprint(settings)

    def deciding_settings(self) -> dict[str, Any]:
        return self.settings.score.model_dump(mode="json", include={"batch_tokens", "log_ratio"})

    def problems(self) -> list[str]:
        from cda.models.causal import load_causal_config

        problems = super().problems()
        for spec in () if problems else self.specs():
            if spec is not None and looks_like_path(spec.name_or_path):
                load_causal_config(spec)
        return problems

    def missing(self) -> list[str]:
        options, name = self.options, self.name
        policy, reference = self.models
        if not policy:
            return [f"{name}: names no model"]
        problems = []
        if reference is None and options.adapter is None and not options.no_reference:
            problems.append(
                f"{name}: against what? Name a reference ({name},REFERENCE), give the policy as an adapter "
                "(score.log_ratio.adapter=FOLDER), or ask for plain log-probability (score.log_ratio.no_reference=true)"
            )
        if reference is not None and options.no_reference:
            problems.append(
                f"{name}: names a reference, and score.log_ratio.no_reference=true wants none; leave one out"
            )
        adapter = _path(options.adapter)
        if adapter is not None and not (adapter / "adapter_config.json").is_file():
            problems.append(f"score.log_ratio.adapter: {options.adapter}: no adapter here (adapter_config.json)")
        return problems

    def rewards(self, texts: Sequence[Text]) -> Rewarded:
        scorer, path = self._loaded(), self.settings.cache
        causal = scorer.policy.causal
        with ScoreCache(path) if path else nullcontext() as cache:
            scope = self._scope(scorer) if path else None
            scores = score_texts(replace(scorer, beta=1.0), texts, cache=cache, scope=scope).times(scorer.beta)
        facts = reward_facts(
            self.name,
            scores,
            how=f"Scored as {scorer.unit}: {scorer.name}, in {causal.spec.precision}",
            max_length_tokens=causal.template.max_length_tokens,
            unit=scorer.unit,
            notes=(
                *scorer.notes(),
                *causal.spec.notes,
                *marks_note(texts, causal.template.has_marks),
            ),
        )
        del scorer, causal
        free_memory()
        return scores, facts

    def text_scorer(self) -> LogRatioScorer:
        return replace(self._loaded(), label=None)

    def _loaded(self) -> LogRatioScorer:
        """Load the models; CdaError if settings are missing, or a model or adapter cannot be used."""
        from cda.models.causal import load_causal_model

        if problems := self.missing():
            raise ModelError("\n".join(problems))
        options, (spec, other) = self.options, self.specs()
        causal = load_causal_model(spec, _path(options.adapter))
        has_base = options.adapter is not None and not options.no_reference
        policy = Policy(causal)
        reference = Policy(load_causal_model(other)) if other else adapter_off(causal) if has_base else None
        batch_tokens = self.settings.score.batch_tokens
        return LogRatioScorer(policy, reference, options.beta, options.per_token, batch_tokens, "  scoring")

    def _scope(self, scorer: LogRatioScorer) -> str:
        """Name in the score cache of all but the text that decides a log-ratio; files count by content. β is a factor: rewards
        are kept without it and serve every β."""
        models = [policy.causal for policy in (scorer.policy, scorer.reference) if policy is not None]
        settings = {
            "kind": self.section.kind.name,
            "models": [scope_of(causal, causal.adapter) for causal in models],
            "settings": self.options.model_dump(mode="json", include={"per_token"}),
        }
        return fingerprint(settings)

    def _spec(self, name: str, **other: str | None) -> ModelSpec:
        return model_spec(self.section.model_copy(update={"name_or_path": name, **other}))


def _is_hub_id(name: str) -> bool:
    return _HUB_ID.fullmatch(name) is not None and not Path(name).exists()


def _model_name(name: str) -> str:
    """A hub id as it is, a folder by its own name."""
    return name if _is_hub_id(name) else user_path(name).resolve().name


def _path(given: str | None) -> Path | None:
    return None if given is None else user_path(given)


def _content(given: str | None) -> str | None:
    path = _path(given)
    return file_fingerprint(path) if path is not None and path.exists() else given
