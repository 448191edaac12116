"""Mistakes of a recipe that no single setting shows: parts that do not go together, its `train:` keys, its launch."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cda.biases import Bias, builtin_names
from cda.data.load import looks_like_path
from cda.embedded.model import ADAPTERS
from cda.embedded.texts import SECOND_TURNS, second_turn_names
from cda.errors import RunError, did_you_mean, near
from cda.files.paths import near_path
from cda.files.shipped import names_in, recipes_folder
from cda.keys import address_problem, variable_problem
from cda.launch import check_processes
from cda.prompts import Prompts, places
from cda.recipe.presets import value_at
from cda.recipe.schema import SEEDS, Recipe
from cda.recipe.sections import STEERED
from cda.scorers.kinds import scorer_kind
from cda.training.trackers import TRACKERS


def cross_checks(recipe: Recipe, prompts: Prompts, biases: Sequence[Bias], only_audit: bool) -> Iterator[str]:
    """Mistakes of settings, prompts and bias files that were loaded, each in a line."""
    names = [bias.name for bias in biases]
    if len(set(names)) != len(names):
        yield f"biases: two bias files share a name ({', '.join(names)})"
    known = {*names, *builtin_names(), "joint"}
    for setting in ("counterfactuals", "supplementary"):
        counts = getattr(recipe.synthesize, setting)
        if not isinstance(counts, dict):
            continue
        for name in counts:
            if name in known:
                continue
            yield f"synthesize.{setting}.{name}: no such bias here.{did_you_mean(name, known)} Known: {', '.join(sorted(known))}"
        for name in () if len(names) > 1 and "joint" in counts else names:
            if name not in counts:
                yield (
                    f"synthesize.{setting}: has no number for '{name}'; add synthesize.{setting}.{name}=<number of pairs>, or "
                    f"give one number for all: synthesize.{setting}=<number of pairs>"
                )
    for number, objective in enumerate(recipe.objectives):
        for name in objective.target if isinstance(objective.target, dict) else ():
            # As numbers of pairs may: a recipe for several biases names those that have a target of their own, whichever are trained.
            if name in known:
                continue
            yield (
                f"objectives.{number}.target.{name}: not a bias of this recipe.{did_you_mean(name, names)} "
                f"Its biases: {', '.join(names)}"
            )
    if recipe.synthesize.counterfactuals == 0 and recipe.data.contrasts is None and recipe.data.second_turn == "no":
        yield "synthesize.counterfactuals is 0 and data.contrasts is not set, so nothing debiases; give one of them"
    if recipe.synthesize.anchors and not any(objective.kind == "keep" for objective in recipe.objectives):
        kinds = ", ".join(objective.kind for objective in recipe.objectives)
        yield (
            f"synthesize.anchors: anchors are what the objective keep teaches, and the objectives are {kinds}; set "
            f"objectives=[{kinds.replace(' ', '')},keep], or leave the anchors out"
        )
    if recipe.data.weights is not None and not any(recipe.n_pairs("supplementary", name) for name in names):
        yield (
            "data.weights: weights are of unchanged pairs, and synthesize.supplementary is 0, so that none is taught; set "
            "synthesize.supplementary=<number of pairs>, or leave the weights out"
        )
    audit = recipe.audit
    if audit.contrasts is None and (opinions := [name for name in ("votes", "verdicts") if getattr(audit, name)]):
        yield f"audit.contrasts is none, and {' and '.join(f'audit.{name}' for name in opinions)} are on contrasts; give contrasts"
    elif audit.contrasts is None and audit.triples in (None, "embedded") and not audit.rate:
        yield (
            "audit.contrasts is none, so that triples are all that an audit measures, and there are none; give contrasts, or, for "
            "cda audit, triples (--triples FILE, audit.triples) or answers to rewrite (audit.rate=20)"
        )
    if recipe.data.second_turn == "yes":
        yield from _second_turn_problems(recipe, names)
    llm = recipe.llm
    yield from _endpoint_problems(recipe)
    for named in map(llm.named, _models_asked(recipe)) if llm.budget_usd is not None else ():
        if named.price is None:
            model = named.asked.model
            section = f"llm.endpoints.{named.endpoint}" if named.endpoint else "llm"
            yield (
                f"llm.budget_usd: no price of '{model}' is known, so that spending cannot be limited; give "
                f"{section}.prices='{{{model}: {{input: <$ per million tokens>, output: <…>}}}}', or a YAML file of "
                f"such prices ({section}.prices=FILE)"
            )
    for section, by in (("label", recipe.label.by), ("synthesize", recipe.synthesize.by)):
        if by == "llm" and llm.model is None:
            yield f"{section}.by is llm, but llm.model is not set"
    yield from _form_problems(recipe, prompts)
    yield from _place_problems(recipe, prompts, biases)
    if recipe.score.calibration is not None and not only_audit:
        yield (
            "score.calibration: corrects one model as it is, and a training changes it; leave it out (`cda audit MODEL "
            "score.calibration=FILE` measures the model with it)"
        )
    yield from _model_problems(recipe, only_audit)


def _models_asked(recipe: Recipe) -> list[str]:
    """The recipe's LLM and those that judge or grade, each once."""
    return list(dict.fromkeys(filter(None, (recipe.llm.model, *recipe.model.llms))))


def _endpoint_problems(recipe: Recipe) -> Iterator[str]:
    """Models whose name is an endpoint's alone, or ends almost as one's, which is a misspelling and no part of a model's name."""
    llm, discover = recipe.llm, recipe.discover
    for model in (*_models_asked(recipe), *discover.rewriters, *discover.policies):
        bare, _, name = model.rpartition("@")
        if not bare and name in llm.endpoints:
            yield f"{model}: names the endpoint '{name}' and no model; write the model's name before the @"
        elif bare and name not in llm.endpoints and near(name, llm.endpoints):
            yield f"{model}: llm.endpoints has no '{name}'.{did_you_mean(name, llm.endpoints)} Known: {', '.join(llm.endpoints)}"


def _second_turn_problems(recipe: Recipe, names: Sequence[str]) -> Iterator[str]:
    if not second_turn_names(names):
        yield f"data.second_turn: no conversations of {', '.join(names)}; there are some of {', '.join(SECOND_TURNS)}. Leave it out"
    kinds = [objective.kind for objective in recipe.objectives]
    if not {"pairs", "paired"} & {*kinds}:
        yield (
            f"data.second_turn: conversations teach which answer is better, and the objectives ({', '.join(kinds)}) do not; add "
            "pairs or paired, or leave it out"
        )


def _place_problems(recipe: Recipe, prompts: Prompts, biases: Sequence[Bias]) -> Iterator[str]:
    """Prompts without a place for what a bias file needs."""
    about_messages = [bias.name for bias in biases if bias.query_question is not None]
    for name, text in (("pair.user", prompts.label.pair.user), ("single.user", prompts.label.single.user)):
        if about_messages and "user_message" not in places(text):
            yield (
                f"label.prompt: {recipe.label.prompt}: {name}: needs {{user_message}} for '{about_messages[0]}', which asks a "
                "question about it (query_question)"
            )
    with_lengths = [bias.name for bias in biases if bias.min_words_of_chosen is not None]
    if with_lengths and "length" not in places(prompts.rewrite.user):
        yield (
            f"rewrite.prompt: {recipe.rewrite.prompt}: user: needs {{length}} for '{with_lengths[0]}', whose rewrites must have "
            "a number of words"
        )


def _form_problems(recipe: Recipe, prompts: Prompts) -> Iterator[str]:
    """Settings that a verdict of one token, or one in the form of its own prompt, cannot have; a grade likewise."""
    judge = recipe.score.judge
    if judge.by_token and judge.reasons is not None:
        yield (
            f"score.judge.reasons={judge.reasons}: a verdict of one token (score.judge.by_token) has no reasons; leave one of "
            "them out"
        )
    if prompts.judge.verdict is not None:
        said = "states the form of its verdict itself"
        if judge.reasons is not None:
            yield (
                f"score.judge.reasons={judge.reasons}: {judge.prompt} {said}; say `reasons` in the prompt file, or leave one of them out"
            )
        if judge.criteria:
            yield f"score.judge.criteria: {judge.prompt} {said}, and criteria are asked for in ours; leave one of them out"
        if judge.by_token and prompts.judge.verdict.one_token is None:
            yield (
                f"score.judge.by_token: the verdicts of {judge.prompt} are not one character for each side; read them as written, or "
                "name another score.judge.prompt"
            )
    form = prompts.grade.grade
    if recipe.score.grade.by_token and form.one_token is None:
        yield (
            f"score.grade.by_token: the grades of {recipe.score.grade.prompt}, {form.lowest} to {form.highest}, are not among the "
            "few tokens that a server gives probabilities of; read them as written, or name another score.grade.prompt"
        )


def _model_problems(recipe: Recipe, only_audit: bool) -> Iterator[str]:
    """Mistakes in the model's name: no panel for a panel's rule, nothing named, a judge that is not the LLM, one that cannot be trained."""
    name, rule, kind = recipe.model.name_or_path, recipe.score.judge.panel, recipe.model.kind
    if rule != "mean" and len(recipe.model.llms) < 2:
        yield f"score.judge.panel={rule}: {name} is no panel of judges; name several (judge:NAME,NAME), or leave it out"
    if name.startswith("steered:"):
        yield f"{name}: {STEERED}"
    elif not kind.bare(name).strip():
        yield f"{name}: names no model after the colon"
    else:
        yield from kind.problems(name, recipe.llm.model)
    if not kind.trainable and not only_audit:
        yield (
            f"model.name_or_path: {name} cannot be trained; give a sequence classifier (`cda audit {name}` measures it as it is)"
        )


def misspelt_model(name: str) -> list[str]:
    """A model's name that is nowhere here and almost that of something that is: no half minute is spent to ask the hub for it."""
    if not scorer_kind(name).trainable or looks_like_path(name) or name in ADAPTERS:
        return []
    known = [] if "/" in name else [*ADAPTERS, *names_in(recipes_folder()), *names_in(recipes_folder() / "models")]
    close = near(name, known) or near_path(name)
    if close is None:
        return []
    return [f"{name}: no model of this name is here. Did you mean '{close}'? (A model on the hub is OWNER/NAME)"]


def written_keys(settings: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Values that hold a key, and a message about each without it, before they reach a file or the terminal."""
    further = value_at(settings, "llm", "endpoints")
    llms = [("llm",), *(("llm", "endpoints", str(name)) for name in (further if isinstance(further, dict) else ()))]
    for section in (*llms, ("score", "served")):
        name, address = value_at(settings, *section, "api_key_env"), value_at(settings, *section, "base_url")
        if isinstance(name, str) and (problem := variable_problem(name)):
            yield name, f"{'.'.join(section)}.api_key_env: {problem}"
        if isinstance(address, str) and (problem := address_problem(address, with_version=True)):
            yield address, f"{'.'.join(section)}.base_url: {problem} ({'.'.join(section)}.api_key_env)"
    model = value_at(settings, "model", "name_or_path")
    if isinstance(model, str) and (problem := scorer_kind(model).key_problem(model)):
        yield scorer_kind(model).bare(model), f"model.name_or_path: the address {problem} (score.served.api_key_env)"


# Set by cda from other parts of the recipe; two places for one value would let them disagree.
_OWNED_TRAIN_KEYS = {
    "output_dir": "run.folder",
    "seed": "seed",
    "max_length": "model.max_length_tokens",
    "model_init_kwargs": "model.*",
    "trust_remote_code": "model.trust_remote_code",
    "disable_dropout": "lora.dropout",
    "resume_from_checkpoint": "the same command, which resumes by itself",
    "disable_tqdm": "nothing: progress is always shown",
    "remove_unused_columns": "nothing: the columns of a pair are all used",
    "eos_token": "nothing: texts are tokenized as the model's own template has them",
    "pad_token": "nothing: the model's own padding token is used",
    "chat_template_path": "nothing: the model's own template is used",
    "logging_nan_inf_filter": "nothing: a loss that is no number stops the training",
    "hub_token": "`hf auth login` or HF_TOKEN: in a recipe it would be written into the run folder, and by the trainer to the hub",
}

_MOST_SEEDS, _SEEDS_END = 100, 2**32
# Not allowed with several seeds: all trainings would write to one place, or would not differ in all that a seed decides.
_NOT_WITH_SEEDS = {
    "push_to_hub": "all trainings would be pushed to one repository; leave it out, and push one with `cda merge --push`",
    "hub_model_id": "all trainings would be pushed to one repository; leave it out, and push one with `cda merge --push`",
    "data_seed": "the order of the data would be the same in every training, and missing in the spread between them; leave it out",
}

# Fields that recipes usually set, and whether they are numbers. Anything else asks TRL, which takes seconds to import.
USUAL_TRAIN_KEYS = {
    "num_train_epochs": True, "per_device_train_batch_size": True, "gradient_accumulation_steps": True,
    "learning_rate": True, "lr_scheduler_type": False, "warmup_steps": True, "optim": False, "weight_decay": True,
    "max_grad_norm": True, "eval_strategy": False, "eval_steps": True, "save_strategy": False, "save_steps": True,
    "load_best_model_at_end": False, "metric_for_best_model": False, "greater_is_better": False,
    "gradient_checkpointing": False, "train_sampling_strategy": False, "max_steps": True, "report_to": False,
    "run_name": False, "push_to_hub": False, "hub_model_id": False, "logging_steps": True, "bf16": False,
}  # fmt: skip


def seed_problems(train: object, seed: object, only_audit: bool, path: Path) -> list[str]:
    """Mistakes in `train.seeds`, each in a line; `seed` is the recipe's, `path` its file."""
    if not isinstance(train, dict) or SEEDS not in train:
        return []
    seeds = train[SEEDS]
    if only_audit:
        return [f"{path}: train.{SEEDS}: nothing is trained here; leave it out"]
    if problem := _wrong_seeds(seeds, seed):
        return [f"{path}: train.{SEEDS}: {problem}"]
    if len(seeds) == 1 if isinstance(seeds, list) else seeds == 1:
        return []
    given = [name for name in _NOT_WITH_SEEDS if train.get(name) not in (None, False)]
    # Those of Transformers that stay open take a second training for more steps of the first; cda opens a run of its own in some.
    trackers = train.get("report_to") or []
    trackers = trackers if isinstance(trackers, list) else [trackers]
    return [f"{path}: train.{name}: not with several seeds: {_NOT_WITH_SEEDS[name]}" for name in given] + [
        f"{path}: train.report_to: {tracker} would take several trainings for one; use {', '.join(TRACKERS)} or none, or train "
        f"one seed a run folder (train.{SEEDS}=[42])"
        for tracker in trackers
        if tracker not in ("none", *TRACKERS)
    ]


def _wrong_seeds(seeds: Any, seed: object) -> str | None:
    listed = seeds if isinstance(seeds, list) else [seeds]
    is_number = not isinstance(seeds, list) and _is_whole(seeds) and 1 <= seeds <= _MOST_SEEDS
    are_seeds = isinstance(seeds, list) and all(_is_whole(each) and 0 <= each < _SEEDS_END for each in seeds)
    if not is_number and not (are_seeds and 1 <= len(set(map(str, listed))) == len(listed) <= _MOST_SEEDS):
        return (
            f"give the number of trainings, from 1 to {_MOST_SEEDS} (train.{SEEDS}=3), or a list of as many different seeds, each from 0 "
            f"to {_SEEDS_END - 1} (train.{SEEDS}=[42,43,44]); found {str(seeds)[:60]!r}"
        )
    if is_number and isinstance(seed, int) and seed + seeds > _SEEDS_END:
        return f"{seeds} seeds counted from seed={seed} pass {_SEEDS_END - 1}; lower seed, or list them"
    return None


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def unknown_train_keys(train: object, path: Path) -> list[str]:
    """Mistakes in the keys and values of a recipe's `train:` section, each in a line; `path` is the recipe's."""
    if not isinstance(train, dict) or all(_is_usual(key, value) for key, value in train.items()):
        return []
    import dataclasses

    from trl import RewardConfig  # late: takes seconds

    types = {field.name: str(field.type) for field in dataclasses.fields(RewardConfig) if field.init}
    problems = []
    for key, value in train.items():
        if key == SEEDS:
            continue
        if key in _OWNED_TRAIN_KEYS:
            problems.append(f"{path}: train.{key}: set it by {_OWNED_TRAIN_KEYS[key]}")
        elif key not in types:
            problems.append(
                f"{path}: train.{key}: not a field of trl.RewardConfig.{did_you_mean(str(key), sorted(types))}"
            )
        elif isinstance(value, str) and re.search("int|float", types[key]) and "str" not in types[key]:
            problems.append(f"{path}: train.{key}: expected a number, found {value!r}")
    return problems


def _is_usual(key: object, value: object) -> bool:
    return key == SEEDS or (key in USUAL_TRAIN_KEYS and not (USUAL_TRAIN_KEYS[str(key)] and isinstance(value, str)))


_ZERO_3 = 3


def check_launch(precision: str, train: Mapping[str, object]) -> None:
    """Check the launcher against `train:`; RunError, a line each: processes are missing, or 8-bit weights would be sharded."""
    problems = []
    try:
        check_processes()
    except RunError as error:
        problems.append(str(error))
    sharding = sharded_by(train)
    if precision == "8bit" and sharding is not None:
        problems.append(
            f"model.precision: 8bit weights cannot be sharded, but {sharding} was asked for. "
            "Set model.precision=bf16, or keep 8bit with one whole copy on each GPU: recipes/accelerate/ddp.yaml"
        )
    if problems:
        raise RunError("\n".join(problems))


def sharded_by(train: Mapping[str, object]) -> str | None:
    """The library that would shard the base, and its setting, as `accelerate launch` (its environment variables or config file)
    or the fields `fsdp` and `deepspeed` of `train:` ask for it; None if every process has all of it."""
    if train.get("fsdp"):
        return "FSDP (train.fsdp)"
    if _is_zero_3(train.get("deepspeed")):
        return "DeepSpeed ZeRO-3 (train.deepspeed)"
    if _is_set("ACCELERATE_USE_FSDP"):
        return "FSDP (accelerate launch)"
    if _is_set("ACCELERATE_USE_DEEPSPEED"):
        stage = os.environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE")
        file = os.environ.get("ACCELERATE_DEEPSPEED_CONFIG_FILE", "none")
        # A separate DeepSpeed file overrides the stage that the launcher names.
        if stage == str(_ZERO_3) if file == "none" else _is_zero_3(file):
            return "DeepSpeed ZeRO-3 (accelerate launch)"
    return None


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in ("1", "true", "yes", "on")


def _is_zero_3(config: object) -> bool:
    """True for a DeepSpeed configuration, given whole or as the path of its JSON file, with stage 3."""
    if isinstance(config, str):
        try:
            config = json.loads(Path(config).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False  # DeepSpeed says what is wrong with its file
    zero = config.get("zero_optimization") if isinstance(config, dict) else None
    return isinstance(zero, dict) and str(zero.get("stage")) == str(_ZERO_3)
