"""Targets of `cda inspect` (a run, a file of triples, a recipe, or a bias), the options that go with each, and rewrites made
earlier (of a run's training pairs, of its audit's triples, of a file of triples) or now, in both directions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from cda.auditing.audit import AUDIT_FILE
from cda.biases import Bias, builtin_names, load_bias
from cda.counterfactuals import synthesize
from cda.counterfactuals.label import LABEL_TOKENS, PAIRS
from cda.counterfactuals.synthesize import MIX
from cda.counterfactuals.triples import read_responses
from cda.data.load import FILE_TYPES, Row, load_rows, looks_like_path
from cda.data.triples import clean_triples
from cda.embedded.model import EMBEDDED
from cda.embedded.rules import rules_of
from cda.embedded.texts import authored_contrasts
from cda.errors import CdaError, DataError, RecipeError, RunError, did_you_mean
from cda.files.paths import user_path
from cda.files.yaml_file import read_yaml_mapping
from cda.jobs.options import InspectOptions
from cda.llm.money import request_tokens, tokens_of
from cda.llm.protocol import Request
from cda.prompts import Prompts, RewritePrompt
from cda.recipe.load import LoadedRecipe, find_recipe, is_bias_content, is_recipe, load_model_audit, load_recipe
from cda.recipe.schema import Recipe
from cda.records import Direction, LabelledPair, Pair, Prompt, Rewrite, RewriteRequest, TrainingPair
from cda.resources.artifacts import of_this_version, read_labelled, read_training, shown_path, stage_counts
from cda.resources.llm_access import Planned, Step, confirm_all, llm_access
from cda.resources.named_scorer import Subject, scorer_settings
from cda.resources.scorers import open_scorer
from cda.resources.sources import load_pairs, prompt_name, rewriter, training_pairs
from cda.results.audit import AuditResult
from cda.results.base import load
from cda.results.inspect import LostRewrites
from cda.results.stages import SynthesizeCounts
from cda.rewriting.fidelity import WORDS_WITHIN
from cda.rewriting.labels import label_request, pair_request
from cda.rewriting.rewriter import GatedRewriter, Labeller, ResamplingRewriter, Rewriter, rewrite_request
from cda.rewriting.triples import Original
from cda.run import MANIFEST, RunFolder, StageRecord
from cda.scorers.kinds import scorer_kind
from cda.stats.draws import drawn

WORST = ("reward", "drift", "failed")
_FOLDER = "runs/inspect"  # folder next to which caches of requests outside a run are stored
UNGATED = "The gate is off (synthesize.gate.on=false); what it would say of these rewrites is shown all the same."
TRAINING, TRIPLES, FRESH = "training pairs", "audit triples", "made now"
AUDITED = "triples.jsonl"
_SETTING = re.compile(r"Map it with audit\.triple_columns\.(\w+)=<your column>")


@dataclass(frozen=True, slots=True)
class Seen:
    """A rewrite to look at: the text is the last rejected one if it failed, None if there is none.

    `labels` and `rewards` are those of original and rewrite, if known; `difference` is the rewrite's reward minus the original's, or
    a judge's preference.
    """

    bias: str
    source: str
    prompt: Prompt
    original: str
    rewrite: str | None
    direction: Direction
    reference: str | None = None
    failed: str | None = None
    labels: tuple[bool | None, bool | None] = (None, None)
    labelled_by: str | None = None
    rewards: tuple[float, float] | None = None
    difference: float | None = None


@dataclass
class SourcedRewrites:
    """Rewrites to look at, with bias files as they were then, rewriters, and the scorer of the stored rewards, if any.

    `lost` are failures whose number alone was kept, by bias; `with_failed` says that failed rewrites are included, so that their
    share is known. `words_within` is the largest change of the word count that the gate accepts, as a share.
    """

    where: str
    biases: dict[str, Bias] = field(default_factory=dict)
    by: list[str] = field(default_factory=list)
    rewrites: list[Seen] = field(default_factory=list)
    lost: list[tuple[str, LostRewrites]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    scored_by: str | None = None
    words_within: float = WORDS_WITHIN
    with_failed: bool = False


def has_rewrites(folder: RunFolder) -> bool:
    """True if a run folder holds any rewrite."""
    return bool(folder.record("synthesize")) or (folder.stage("audit") / AUDITED).is_file()


def rewrites_of_run(path: Path) -> SourcedRewrites:
    """Rewrites of a run's finished stages; RunError without a run, or without any."""
    folder, material = RunFolder(path), SourcedRewrites(f"run {path.name}")
    stages = [name for name in ("label", "synthesize", "train", "audit") if folder.record(name)]
    if not stages and not (path / MANIFEST).is_file():
        raise RunError(f"{path}: no run in this folder (no manifest.json, no finished stage); give the folder of a run")
    with of_this_version(path, "cda train"):
        if "synthesize" in stages:
            _add_training(folder, material)
        if (folder.stage("audit") / AUDITED).is_file():
            _add_audited(folder, material)
    if not material.rewrites and not material.lost:
        raise RunError(
            f"{path}: holds no rewrites (finished: {', '.join(stages) or 'no stage'}). `cda synthesize RECIPE` makes training "
            "pairs, and an audit with audit.rate above 0 triples; `cda inspect BIAS` makes a few afresh"
        )
    return material


def rewrites_of_file(reference: str, named: Sequence[str] = ()) -> SourcedRewrites:
    """Rewrites of a file of triples, of the biases named, else of those of its column `bias`, which must then be built-in ones."""
    rows = load_rows(reference)
    stated = list(dict.fromkeys(str(row["bias"]) for row in rows if row.get("bias") is not None))
    if not named and not stated:
        raise DataError(f"{reference}: no column 'bias'; say whose rewrites they are with --bias NAME")
    unknown = [name for name in stated if name not in builtin_names()]
    if not named and unknown:
        raise DataError(
            f"{reference}: {', '.join(unknown)}: no built-in bias; give the bias file with --bias FILE (several times for several)"
        )
    material = SourcedRewrites(shown_path(reference), {bias.name: bias for bias in map(load_bias, named or stated)})
    try:
        _add_triples(rows, reference, "triples of the file", material)
    except DataError as problem:
        # The reader's message names a recipe's setting, and there is no recipe here.
        raise DataError(_SETTING.sub(r"Name it \1 in the file", str(problem))) from None
    return material


def _add_training(folder: RunFolder, material: SourcedRewrites) -> None:
    record = folder.record("synthesize")
    labelled = folder.stage("label") / PAIRS
    if not labelled.is_file():
        raise RunError(f"{folder.path}: {labelled.name} of stage 'label' is missing, which holds the originals")
    material.biases |= _biases(record, folder.path)
    originals = {row.pair.id: row for row in read_labelled(labelled)}
    gate = record.settings.get("synthesize", {}).get("gate", {})
    material.words_within = gate.get("words_within", WORDS_WITHIN)
    if not gate.get("on"):
        material.notes.append(UNGATED)
    by_llm = gate.get("on") and record.settings.get("llm", {}).get("model") is not None
    by_label = folder.record("label").settings.get("llm", {}).get("model")
    seen: set[tuple[str, str, str | None]] = set()
    for row in read_training(folder.stage("synthesize") / MIX):
        origin = originals.get(row.source_id)
        # Contrasts of a file were not rewritten here, and supplementary pairs not at all.
        if row.kind == "supplementary" or origin is None or row.bias not in material.biases:
            continue
        asked = by_llm and material.biases[row.bias].label_by == "ask"
        for rewrite in _of_example(row, origin, by_label if asked else None):
            if (key := (rewrite.bias, rewrite.original, rewrite.rewrite)) not in seen:
                seen.add(key)
                material.rewrites.append(rewrite)
    counts = stage_counts(folder, "synthesize", SynthesizeCounts)
    for name, made in counts.biases.items() if counts else ():
        material.by.append(made.by)
        material.lost.append((name, LostRewrites(source=TRAINING, tried=made.tried, reasons=made.rejected)))


def _of_example(row: TrainingPair, origin: LabelledPair, labelled_by: str | None) -> Iterator[Seen]:
    """The rejected side with the bias added; and the chosen side, if that was made more specific too."""
    bias, pair = str(row.bias), origin.pair
    rewrite = Seen(bias, TRAINING, pair.prompt, pair.rejected, row.pair.rejected, "add", pair.chosen)
    if labelled_by is not None:
        # The gate asked the same LLM about the rewrite, and passed only those with a yes.
        rewrite = replace(rewrite, labels=(origin.labels[bias]["rejected"], True), labelled_by=labelled_by)
    yield rewrite
    if row.kind == "counterfactual" and row.pair.chosen != pair.chosen:
        yield Seen(bias, TRAINING, pair.prompt, pair.chosen, row.pair.chosen, "remove")


def _add_audited(folder: RunFolder, material: SourcedRewrites) -> None:
    audited = _biases(folder.record("audit"), folder.path)
    material.biases |= {name: bias for name, bias in audited.items() if name not in material.biases}
    file = folder.stage("audit") / AUDITED
    _add_triples(load_rows(str(file)), f"{folder.path.name}/audit/{AUDITED}", TRIPLES, material)
    audit = load(AuditResult, folder.stage("audit") / AUDIT_FILE, "cda audit")
    for name, rate in audit.rate.items():
        material.by.append(rate.flips.by)
        if lost := audit.excluded.get(f"triples of {name}"):
            source = f"{TRIPLES}, both directions"
            material.lost.append((name, LostRewrites(source=source, tried=lost.seen, reasons=dict(lost.reasons))))


def _add_triples(rows: Sequence[Row], where: str, source: str, material: SourcedRewrites) -> None:
    cleaned = clean_triples(rows, list(material.biases), {}, where)
    kept, label = _kept_rewards(rows)
    for triple in cleaned.triples:
        texts = (triple.original, triple.rewrite, triple.rewrite_of_rewrite)
        rewards = kept.get(texts, (None, None, None))
        for at, place in enumerate((source, f"{source}, rewritten back")):
            had = triple.has_attribute != bool(at)  # the second rewrite starts from what the first one made
            before, after = rewards[at : at + 2]
            both = None if before is None or after is None else (before, after)
            material.rewrites.append(
                Seen(
                    triple.bias, place, triple.prompt, texts[at], texts[at + 1], "remove" if had else "add",
                    rewards=both, difference=both and both[1] - both[0],
                )
            )  # fmt: skip
    if kept:
        material.scored_by = f"the audited model, {label} training" if label != "model" else "the audited model"
    if cleaned.exclusions.dropped:
        material.notes.append(f"{shown_path(where)}: {cleaned.exclusions}")


def _kept_rewards(rows: Sequence[Row]) -> tuple[dict[tuple[object, ...], Sequence[float | None]], str]:
    """Rewards that an audit wrote next to its triples, by the three texts; of two models, those of the one before training."""
    present = {key for row in rows for key in row}
    label = next((name for name in ("model", "before") if f"rewards_{name}" in present), "")
    kept: dict[tuple[object, ...], Sequence[float | None]] = {}
    for row in rows if label else ():
        texts = tuple(row.get(name) for name in ("original", "rewrite", "rewrite_of_rewrite"))
        rewards = row.get(f"rewards_{label}")
        if isinstance(rewards, list) and [isinstance(reward, int | float | None) for reward in rewards] == [True] * 3:
            kept[texts] = rewards
    return kept, label


def _biases(record: StageRecord, path: Path) -> dict[str, Bias]:
    try:
        return {bias["name"]: Bias.model_validate(bias) for bias in record.settings.get("biases", ())}
    except ValidationError:
        raise DataError(f"{path}: its bias files are those of another version; make the run again") from None


@dataclass(frozen=True, slots=True)
class InspectionTarget:
    """Rewrites that are there, or a recipe by which to make some; and the settings of the model whose rewards are shown."""

    material: SourcedRewrites | None
    loaded: LoadedRecipe | None
    scored_by: LoadedRecipe | None


def check_options(options: InspectOptions) -> None:
    counts = {"n": options.n, "limit": options.limit}
    problems = [f"--{name} {value}: 1 or more is needed" for name, value in counts.items() if value < 1]
    if options.worst is not None and options.worst not in WORST:
        problems.append(f"--worst {options.worst}: there are {', '.join(WORST)}.{did_you_mean(options.worst, WORST)}")
    if options.worst == "reward" and options.model == "none":
        problems.append("--worst reward: needs rewards, and --model none asks for none")
    if options.html is not None and (user_path(options.html).is_dir() or not user_path(options.html).parent.is_dir()):
        problems.append(f"--html {options.html}: name a file in a folder that exists, such as inspect.html")
    if problems:
        raise RecipeError(problems)


def resolved(target: str, overrides: Sequence[str], options: InspectOptions) -> InspectionTarget:
    path = user_path(target)
    if path.is_dir() or path.suffix in FILE_TYPES:
        _check_nothing_to_rewrite(target, overrides, options)
        if not path.is_dir():
            material = rewrites_of_file(target, options.bias)
            return InspectionTarget(material, None, _named_model(options, _FOLDER, overrides))
        material = _of_biases(rewrites_of_run(path), options.bias)
        return InspectionTarget(material, None, _named_model(options, str(path), overrides))
    if _is_bias(target):
        return _together(None, _of_bias_alone(target, overrides, options), _named_model(options, _FOLDER, overrides))
    if not is_recipe(target):
        names = builtin_names()
        raise RunError(
            f"{target}: no run folder, no file of triples ({', '.join(FILE_TYPES)}), no recipe and no bias."
            f"{did_you_mean(target, names)} Biases: {', '.join(names)}; or the path of a bias file"
        )
    loaded = replace(load_recipe(target, overrides), consent=options.consent)
    folder = RunFolder(loaded.recipe.run_path)
    scored_by = _named_model(options, str(folder.path), overrides)
    own = loaded if options.model is None else None
    if options.fresh or options.responses or not has_rewrites(folder):
        return _together(None, _with_biases(loaded, options.bias), scored_by or own)
    material = _of_biases(rewrites_of_run(folder.path), options.bias)
    try:
        changed = folder.why_redo(synthesize.stage(loaded, folder))
    except CdaError:
        changed = None
    if changed:
        note = f"The recipe has changed since these rewrites were made ({changed}); --fresh makes new ones"
        material.notes.append(note)
    return _together(material, loaded, scored_by or (own if material.scored_by is None else None))


def _together(
    material: SourcedRewrites | None, loaded: LoadedRecipe, scored_by: LoadedRecipe | None
) -> InspectionTarget:
    """A target whose rewriter and scoring model share one budget and one count of requests."""
    return InspectionTarget(material, loaded, scored_by and replace(scored_by, opened=loaded.opened))


def recipe_of(target: str, overrides: Sequence[str], options: InspectOptions) -> LoadedRecipe:
    """The recipe of a target of which no run is looked at: a recipe, a bias, `judge:NAME` or `grade:NAME`; RunError for anything else."""
    if scorer_kind(target).asks_llm:
        return load_model_audit(target, {"run": {"folder": _FOLDER}}, overrides)
    if user_path(target).is_dir() or not (_is_bias(target) or is_recipe(target)):
        known = builtin_names()
        raise RunError(
            f"{target}: no recipe, no bias, no judge:NAME and no grade:NAME, whose prompts could be shown.{did_you_mean(target, known)} Biases: "
            f"{', '.join(known)}; or the path of a bias file or a recipe"
        )
    if _is_bias(target):
        return _of_bias_alone(target, overrides, options)
    return _with_biases(load_recipe(target, overrides), options.bias)


def _of_bias_alone(target: str, overrides: Sequence[str], options: InspectOptions) -> LoadedRecipe:
    settings = {"name": "inspect", "biases": [target], "run": {"folder": _FOLDER}}
    loaded = replace(load_model_audit("embedded", settings, overrides), consent=options.consent)
    return _with_biases(loaded, options.bias)


def _is_bias(target: str) -> bool:
    """True if a target is a bias file, or the name of a built-in bias that is no recipe's name too."""
    if not is_recipe(target):
        return target in builtin_names()
    return is_bias_content(read_yaml_mapping(find_recipe(target)))


def _check_nothing_to_rewrite(target: str, overrides: Sequence[str], options: InspectOptions) -> None:
    problems = []
    if options.responses:
        problems.append(
            f"--responses: {target} holds rewrites already; give a recipe or a bias to rewrite these responses"
        )
    if options.fresh:
        problems.append(f"--fresh: {target} says only what was rewritten; give a recipe or a bias")
    if overrides and options.model in (None, "none"):
        problems.append(f"{overrides[0]}: has no effect when nothing is rewritten and no --model is given")
    if problems:
        raise RecipeError(problems)


def _named_model(options: InspectOptions, folder: str, overrides: Sequence[str]) -> LoadedRecipe | None:
    """Settings of the model of --model, with the overrides about models; those with another model's name are left out."""
    target = options.model
    if target is None or target == "none":
        return None
    names = ("model.name_or_path=", *(("llm.model=",) if scorer_kind(target).asks_llm else ()))
    words = [word for word in overrides if word.startswith(("score.", "llm.", "model.")) and not word.startswith(names)]
    return replace(load_model_audit(target, {"run": {"folder": folder}}, words), consent=options.consent)


def _with_biases(loaded: LoadedRecipe, names: Sequence[str]) -> LoadedRecipe:
    _check_biases(names, [bias.name for bias in loaded.biases], str(loaded.path))
    return replace(loaded, biases=tuple(bias for bias in loaded.biases if not names or bias.name in names))


def _of_biases(material: SourcedRewrites, names: Sequence[str]) -> SourcedRewrites:
    known = list(material.biases)
    _check_biases(names, known, material.where)
    rewrites = [rewrite for rewrite in material.rewrites if not names or rewrite.bias in names]
    if not rewrites:
        raise RunError(f"{material.where}: no rewrite of {', '.join(names or known)} was kept")
    lost = [(bias, failures) for bias, failures in material.lost if not names or bias in names]
    return replace(material, rewrites=rewrites, lost=lost)


def _check_biases(names: Sequence[str], known: Sequence[str], where: str) -> None:
    problems = [
        f"--bias {name}: no bias of {where}.{did_you_mean(name, known)} Its biases: {', '.join(known)}"
        for name in names
        if name not in known
    ]
    if problems:
        raise RecipeError(problems)


_BACK = "made now, rewritten back"


@dataclass(frozen=True)
class _Watched:
    """A rewriter whose texts are kept, whatever the gate makes of them; `written` is shared by its further samples."""

    rewriter: Rewriter
    written: dict[RewriteRequest, str]

    @property
    def name(self) -> str:
        return self.rewriter.name

    def rewrite(self, requests: Sequence[RewriteRequest], bias: Bias) -> list[Rewrite]:
        outcomes = self.rewriter.rewrite(requests, bias)
        texts = zip(requests, outcomes, strict=True)
        self.written.update({request: outcome.text for request, outcome in texts if outcome.text is not None})
        return outcomes

    def resampled(self, sample: int) -> Rewriter:
        again = self.rewriter.resampled(sample) if isinstance(self.rewriter, ResamplingRewriter) else self.rewriter
        return _Watched(again, self.written)


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers to rewrite, by bias; biases whose rewrites are rewritten back, and those that an LLM labels; and notes on the file."""

    texts: Mapping[str, Sequence[Original]]
    back: frozenset[str]
    labelled: frozenset[str]
    notes: tuple[str, ...] = ()


def answers_to_rewrite(loaded: LoadedRecipe, n: int, seed: int, responses: str | None = None) -> Answers:
    """At most n answers of each kind for each bias.

    Embedded answers are without the bias or, if there are texts of it, with it. If there are none, and with answers of a
    file (`prompt`, `response` and, if known, `has_attribute`), each rewrite is rewritten back, so that both directions are seen.
    """
    recipe, notes, texts = loaded.recipe, list[str](), dict[str, list[Original]]()
    if responses is not None:
        rows, exclusions = read_responses(load_rows(responses), responses, recipe.audit)
        if not rows:
            raise DataError(f"{responses}: no usable response; {exclusions}")
        if exclusions.dropped:
            notes.append(f"{responses}: {exclusions}")
        texts = {bias.name: drawn(rows, n, seed) for bias in loaded.biases}
    for bias in loaded.biases:
        if not recipe.rewrites_by_llm:
            rules_of(bias)
        texts.setdefault(bias.name, _embedded(bias, n, seed))
    alone = {name for name, own in texts.items() if responses is not None or not any(row.has_attribute for row in own)}
    labelled = {bias.name for bias in loaded.biases if recipe.labels_by_llm and bias.label_by == "ask"}
    return Answers(texts, frozenset(alone), frozenset(labelled), tuple(notes))


def fresh_calls(loaded: LoadedRecipe, answers: Answers) -> list[Step]:
    """The LLM's calls; none if rules rewrite."""
    recipe, told = loaded.recipe, loaded.prompts.rewrite
    if not recipe.rewrites_by_llm:
        return []
    show = recipe.synthesize.show_prompt
    return [
        (
            recipe.llm,
            _planned(answers.texts[name], bias, show, told, name in answers.back, name in answers.labelled),
        )
        for name, bias in ((bias.name, bias) for bias in loaded.biases)
    ]


def fresh_rewrites(loaded: LoadedRecipe, answers: Answers, responses: str | None = None) -> SourcedRewrites:
    """Rewrite answers with the recipe's rewriter, in both directions; `responses` is the file that they are of, if any."""
    llm = llm_access(loaded)
    confirm_all(fresh_calls(loaded, answers), llm.consent, llm.opened)
    return agreed_rewrites(loaded, answers, "embedded answers" if responses is None else shown_path(responses))


def agreed_rewrites(loaded: LoadedRecipe, answers: Answers, where: str) -> SourcedRewrites:
    """The same once its cost was agreed to; `where` names the answers."""
    recipe, llm, gate, texts = loaded.recipe, llm_access(loaded), loaded.recipe.synthesize.gate, answers.texts
    notes = list(answers.notes)
    by, written = rewriter(recipe.synthesize, loaded.biases, recipe.seed, llm), dict[RewriteRequest, str]()
    if isinstance(by, GatedRewriter):
        by = replace(by, rewriter=_Watched(by.rewriter, written))
    if not gate.on:
        notes.append(UNGATED)
    material = SourcedRewrites(
        where, {bias.name: bias for bias in loaded.biases}, [by.name], notes=notes, words_within=gate.words_within,
        with_failed=True,
    )  # fmt: skip
    for bias in loaded.biases:
        labeller = llm.labeller() if bias.name in answers.labelled else None
        rewrites = _rewritten(_away(texts[bias.name], bias, labeller), bias, by, written, FRESH)
        if bias.name in answers.back:
            again = [
                RewriteRequest(row.prompt, row.rewrite, _flip(row.direction == "add"))
                for row in rewrites
                if row.rewrite is not None and row.failed is None
            ]
            rewrites += _rewritten(again, bias, by, written, _BACK)
        material.rewrites += rewrites if labeller is None else _labelled(rewrites, bias, labeller, recipe.llm.model)
    return material


def _embedded(bias: Bias, n: int, seed: int) -> list[Original]:
    without = authored_contrasts("audit", [bias.name]) or authored_contrasts("audit", ["jargon"])
    having = authored_contrasts("shown", [bias.name])
    return [
        *(Original(contrast.prompt, contrast.base, False) for contrast in drawn(without, n, seed)),
        *(Original(contrast.prompt, contrast.perturbed, True) for contrast in drawn(having, n, seed)),
    ]


def _away(answers: Sequence[Original], bias: Bias, labeller: Labeller | None) -> list[RewriteRequest]:
    """Requests to flip each answer: as its file says, else as labelled; by itself none has a relative bias (length)."""
    unknown = [row for row in answers if row.has_attribute is None]
    if bias.measure is not None and bias.measure.relative:
        unknown = []
    texts = [row.response for row in unknown]
    shows: Sequence[bool | None] = [bias.shows(text) for text in texts]
    if unknown and labeller is not None:
        shows = labeller([row.prompt for row in unknown], texts, bias)
    labels = dict(zip(unknown, shows, strict=True))
    return [
        RewriteRequest(row.prompt, row.response, _flip(labels.get(row, row.has_attribute) is True)) for row in answers
    ]


def _rewritten(
    requests: Sequence[RewriteRequest], bias: Bias, by: Rewriter, written: dict[RewriteRequest, str], source: str
) -> list[Seen]:
    return [
        Seen(
            bias.name, source, request.prompt, request.response, outcome.text or written.get(request), request.direction,
            failed=outcome.reason,
        )
        for request, outcome in zip(requests, by.rewrite(requests, bias), strict=True)
    ]  # fmt: skip


def _labelled(rewrites: Sequence[Seen], bias: Bias, labeller: Labeller, name: str | None) -> list[Seen]:
    """An LLM's labels of both texts; those that the gate has asked for come out of the cache."""
    rows = [row for row, rewrite in enumerate(rewrites) if rewrite.rewrite is not None]
    if not rows:
        return list(rewrites)
    prompts = [rewrites[row].prompt for row in rows]
    before = labeller(prompts, [rewrites[row].original for row in rows], bias)
    after = labeller(prompts, [str(rewrites[row].rewrite) for row in rows], bias)
    labels = dict(zip(rows, zip(before, after, strict=True), strict=True))
    return [
        replace(rewrite, labels=labels[row], labelled_by=name) if row in labels else rewrite
        for row, rewrite in enumerate(rewrites)
    ]


def _planned(
    answers: Sequence[Original], bias: Bias, show_prompt: bool, told: RewritePrompt, back: bool, labelled: bool
) -> Planned:
    """A rewrite of each answer, one of the rewrite if it is rewritten back, and the labels of all texts if an LLM labels."""
    requests = [RewriteRequest(row.prompt, row.response, "add") for row in answers]
    n, n_requests = len(answers) * (2 if back else 1), max(1, len(requests))
    sent = sum(request_tokens(rewrite_request(request, bias, show_prompt, told=told)) for request in requests)
    mean_in, mean_out = sent / n_requests, sum(tokens_of(request.response) for request in requests) / n_requests
    if labelled:
        return Planned(f"rewriting and labelling for {bias.name}", 3 * n, mean_in, (mean_out + 2 * LABEL_TOKENS) / 3)
    return Planned(f"rewriting for {bias.name}", n, mean_in, mean_out)


def _flip(has_attribute: bool) -> Direction:
    return "remove" if has_attribute else "add"


def prompts_text(target: str, overrides: Sequence[str], options: InspectOptions) -> str:
    """Every request that an LLM would get of one example: system and user text, and the form of its answer."""
    default = InspectOptions()
    unused = [
        f"--{name}: has no effect with --prompts, which rewrites and scores nothing; leave one of them out"
        for name in ("n", "worst", "model", "responses", "fresh", "limit", "html")
        if getattr(options, name) != getattr(default, name)
    ]
    if unused:
        raise RecipeError(unused)
    loaded = recipe_of(target, overrides, options)
    recipe, prompts = loaded.recipe, loaded.prompts
    pairs, where = load_pairs(EMBEDDED, "", {}, "").pairs, "the embedded training pairs"
    if recipe.data.pairs != EMBEDDED and looks_like_path(recipe.data.pairs):
        pairs, where = training_pairs(recipe.data, loaded.opened).pairs, recipe.data.pairs
    pair = drawn(pairs, 1, options.seed)[0]
    parts = [f"What an LLM would be told, with a pair of {where} as the example. Nothing was asked."]
    if recipe.llm.model is None:
        parts.append("llm.model is not set: no LLM is asked, and none of this is sent.")
    if recipe.model.kind.asks_llm:
        requests = open_scorer(Subject("model", recipe.model), scorer_settings(loaded)).told(pair)
    else:
        requests = (request for bias in loaded.biases for request in _for_bias(bias, pair, recipe, prompts))
    return "\n\n".join([*parts, *(_section(*request) for request in requests)])


def _for_bias(bias: Bias, pair: Pair, recipe: Recipe, prompts: Prompts) -> Iterator[tuple[str, Request]]:
    label_name = prompt_name(recipe.label.prompt, prompts.label)
    rewrite_name = prompt_name(recipe.rewrite.prompt, prompts.rewrite)
    by = recipe.label.by
    if bias.label_by == "ask" and (by == "auto" or recipe.llm.used_for(by)):  # once an LLM is set
        of_pair = pair_request(bias, pair, "chosen", told=prompts.label)
        yield f"{bias.name}: labels of a pair (label.prompt={label_name})", of_pair
        of_response = label_request(bias, pair.prompt, pair.rejected, told=prompts.label)
        yield f"{bias.name}: label of one response, as the gate asks (label.prompt={label_name})", of_response
    directions: tuple[Direction, ...] = () if recipe.synthesize.by == "rules" else ("add", "remove")
    for direction in directions:
        rewrite = RewriteRequest(pair.prompt, pair.rejected, direction, pair.chosen)
        request = rewrite_request(rewrite, bias, recipe.synthesize.show_prompt, told=prompts.rewrite)
        yield f"{bias.name}: rewrite, {direction} (rewrite.prompt={rewrite_name})", request


def _section(purpose: str, request: Request) -> str:
    parts = [f"══ {purpose}", f"── system\n{request.system}", f"── user\n{request.user}"]
    if request.schema is not None:
        names = ", ".join(request.schema["properties"])
        parts.append(
            f"── answer\nJSON of {names}, where the server holds a model to a schema; otherwise the system text goes on with:\n"
            f"{request.plain}"
        )
    return "\n\n".join(parts)
