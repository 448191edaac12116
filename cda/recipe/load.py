"""Recipe file + presets + `key=value` overrides -> one validated Recipe, with every mistake reported at once.

Later wins: schema defaults < model preset < data preset < audit preset < recipe file < command line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from cda.biases import Bias, builtin_names, load_bias
from cda.data.load import looks_like_path
from cda.embedded.model import ADAPTERS
from cda.embedded.texts import BIASES as EMBEDDED_BIASES
from cda.errors import RecipeError, did_you_mean, near
from cda.files.paths import is_a_file, near_path
from cda.files.yaml_file import describe, parse_yaml, read_yaml_mapping
from cda.keys import address_problem, variable_problem
from cda.prompts import JudgePrompt, LabelPrompt, Prompts, RewritePrompt, load_prompt, ours
from cda.prompts.load import places
from cda.recipe.opened import Opened
from cda.recipe.schema import Recipe
from cda.recipe.scoring import bare_name, judges_of, kind_of
from cda.recipe.train import seed_problems, unknown_train_keys
from cda.run import fingerprint

_LONGEST_NAME = 90
_DEEPEST_KEY = 20
_QUOTED = 20
NO_SETTINGS: Mapping[str, Any] = MappingProxyType({})
_PRESET_FOLDERS = {"model": "models", "data": "data", "audit": "audit"}
"""In the order in which they are laid over each other; one may name the preset of a later section, as `data/paper.yaml` does."""
_OF_ONES_OWN = {"model": "name_or_path", "data": "pairs", "audit": "contrasts"}


Consent = Literal["given", "by question", "by budget"]
"""To spending money: given beforehand, by a question to the user, or by a budget that holds the estimate (from Python)."""


@dataclass(frozen=True, slots=True)
class LoadedRecipe:
    """A recipe with its bias files, ready to be planned.

    Attributes:
        path: Its file, or what stands for one in messages.
        recipe: The settings.
        biases: Its bias files.
        only_audit: Nothing is trained: one model or judge is measured as it is.
        confirmed: Spending money was agreed to beforehand (`--yes`).
        asks: Whether the user may be asked, as a command does; from Python nobody is.
        prompts: What its LLM is told; the judge's with the recipe's own order and place of reasons.
        notes: What became of presets that were made for another model or for other data; said with the plan.
        opened: What the run has read and opened, shared by all copies with other settings.
    """

    path: Path
    recipe: Recipe
    biases: tuple[Bias, ...]
    only_audit: bool = False
    confirmed: bool = False
    asks: bool = True
    prompts: Prompts = field(default_factory=ours)
    notes: tuple[str, ...] = ()
    opened: Opened = field(default_factory=Opened, compare=False, repr=False)

    @property
    def consent(self) -> Consent:
        """How spending money is agreed to."""
        return "given" if self.confirmed else "by question" if self.asks else "by budget"


def recipes_folder() -> Path:
    """Where the shipped recipes are: beside the package in a checkout, inside it in a wheel."""
    package = Path(__file__).parent.parent
    inside = package / "_recipes"
    return inside if inside.is_dir() else package.parent / "recipes"


def find_recipe(reference: str) -> Path:
    """The file of a recipe given by path or by the name of a shipped one.

    Raises:
        RecipeError: Neither.
    """
    path = Path(reference)
    if is_a_file(path):
        return path
    shipped = recipes_folder() / f"{reference}.yaml"
    if is_a_file(shipped):
        return shipped
    names = _names(recipes_folder())
    close = near_path(reference)
    hint = f" Did you mean '{close}'?" if close else did_you_mean(path.stem, names)
    raise RecipeError(
        [f"{reference}: no such recipe.{hint} Shipped: {', '.join(names)}; or give the path of a YAML file"]
    )


# Nobody has voted on a bias that was discovered: it is taught to make no difference, rather than to be worse.
_FOR_A_BIAS_FILE: dict[str, object] = {
    "model": "embedded",
    "data": "embedded",
    "objectives": ["neutral", "keep"],
    "synthesize": {"supplementary": 100},
}


def load_recipe(
    reference: str, overrides: Sequence[str] = (), settings: Mapping[str, object] = NO_SETTINGS
) -> LoadedRecipe:
    """Resolve a recipe; a bias file stands for the recipe that debiases it, on the embedded model and data unless overridden.

    Contrasts that a discovery left beside a bias file are taught too, unless `data.contrasts` says otherwise.

    Args:
        reference: Path of a recipe or of a bias file, or the name of a shipped recipe.
        overrides: `section.key=value` words, which go before the file.
        settings: The same as a nested mapping, which goes before the words.

    Raises:
        RecipeError: Carries every mistake found in the file, its presets, its bias files and the overrides.
    """
    path = find_recipe(reference)
    content = read_yaml_mapping(path)
    if is_bias_content(content):
        _check_bias(path, content)
        content = {"name": content.get("name"), "biases": [str(path)], **_FOR_A_BIAS_FILE}
        if is_a_file(contrasts_beside(path)):
            content["data"] = {"preset": content["data"], "contrasts": str(contrasts_beside(path))}
    return _resolved(path, content, overrides, only_audit=False, settings=settings)


def is_bias_content(content: Mapping[Any, Any]) -> bool:
    """Whether a YAML file is a bias file, perhaps with mistakes, rather than a recipe: by most of its keys."""
    own = {"instructions", *Bias.model_fields} - set(Recipe.model_fields)
    others = set(Recipe.model_fields) - set(Bias.model_fields)
    if "biases" in content:
        return False
    n_own, n_others = (
        sum(str(key) in names or near(str(key), names) is not None for key in content) for names in (own, others)
    )
    return n_own > n_others


def _check_bias(path: Path, content: Mapping[Any, Any]) -> None:
    """The mistakes of a bias file that stands for a recipe are a bias file's."""
    try:
        load_bias(str(path))
    except RecipeError as error:
        keys = ", ".join(str(key) for key in content if key in Bias.model_fields and key not in Recipe.model_fields)
        raise RecipeError(
            [*error.problems, f"{path}: read as a bias file, for its keys {keys}; a recipe has `biases`"]
        ) from None


def contrasts_beside(bias_file: Path) -> Path:
    """Where a discovery puts contrasts of a bias: beside its file, under its name."""
    return bias_file.with_name(bias_file.stem + ".contrasts.jsonl")


def is_recipe(reference: str) -> bool:
    """Whether a reference names a recipe (a YAML file, or a shipped one) rather than a model."""
    named = is_a_file(recipes_folder() / f"{reference}.yaml")
    return named or Path(reference).suffix in (".yaml", ".yml")


def load_model_audit(
    target: str, settings: Mapping[str, object], overrides: Sequence[str] = (), where: str = "command line"
) -> LoadedRecipe:
    """An audit of one model or judge, without a recipe file.

    Args:
        target: What is to be measured, in the form that `cda.recipe.scoring.kind_of` reads.
        settings: What command-line options say, in the form of a recipe.
        overrides: `section.key=value` words, which go before them.
        where: Named in messages.

    Raises:
        RecipeError: Carries every mistake found.
    """
    base: dict[str, object] = {
        "name": f"audit-{_as_folder(target)}",
        "biases": list(EMBEDDED_BIASES),
        "model": {"name_or_path": target, "precision": "auto", "max_length_tokens": 2048},
        "data": {"pairs": "embedded"},
    }
    if kind_of(target) == "judge":
        base["llm"] = {"model": judges_of(target)[0]}
    return _resolved(Path(where), _merge(base, _checked_layer(settings, where, [])), overrides, only_audit=True)


def misspelt_model(name: str) -> list[str]:
    """A model's name that is nowhere here and almost that of something that is: no half minute is spent to ask the hub for it."""
    if kind_of(name) != "classifier" or looks_like_path(name) or name in ADAPTERS:
        return []
    known = [] if "/" in name else [*ADAPTERS, *_names(recipes_folder()), *_names(recipes_folder() / "models")]
    close = near(name, known) or near_path(name)
    if close is None:
        return []
    return [f"{name}: no model of this name is here. Did you mean '{close}'? (A model on the hub is OWNER/NAME)"]


def _as_folder(target: str) -> str:
    """A model's name as part of a folder's; of a long one its end, and what tells it from others with this end."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", target).strip("-.") or "model"
    mark = f"-{fingerprint(target)[:6]}"
    return name if len(name) <= _LONGEST_NAME else name[len(mark) - _LONGEST_NAME :] + mark


def _resolved(
    path: Path,
    content: Mapping[Any, Any],
    overrides: Sequence[str],
    only_audit: bool,
    settings: Mapping[str, object] = NO_SETTINGS,
) -> LoadedRecipe:
    problems: list[str] = []
    notes: list[str] = []
    layers = [_checked_layer(content, str(path), problems)]
    layers.append(_parse_overrides(overrides, problems))
    layers.append(_checked_layer(settings, str(path), problems))
    own = _merge(*layers)
    presets = _merge(*_preset_layers(own, path, problems))
    presets = _fitting(presets, layers, path, problems, notes)
    biases_asked = own.get("biases", presets.get("biases"))
    several = isinstance(biases_asked, list) and len(biases_asked) > 1
    merged = _merge(_joint_alone(presets) if several else presets, own)
    merged.setdefault("name", path.stem)

    recipe: Recipe | None = None
    try:
        recipe = Recipe.model_validate(merged)
    except ValidationError as error:
        # What an unknown preset would have set is not a second mistake.
        without = tuple(f"{path}: {section}." for section in _unknown_presets(own, path))
        problems += [line for line in describe(error, Recipe, str(path)) if not line.startswith(without or "\0")]
    biases = _load_biases(merged.get("biases"), path, problems)
    problems += unknown_train_keys(merged.get("train"), path)
    problems += seed_problems(merged.get("train"), merged.get("seed", 42), only_audit, path)
    prompts = _load_prompts(merged, path, problems)
    if recipe is not None:
        prompts = _as_asked(prompts, recipe)
        problems += _cross_checks(recipe, biases, path)
        problems += _prompt_problems(recipe, prompts, biases, path)
        if not bare_name(recipe.model.name_or_path).strip():
            problems.append(f"{path}: {recipe.model.name_or_path}: names no model after the colon")
        elif recipe.model.is_judge:
            problems += _judge_problems(recipe, path)
        problems += misspelt_model(recipe.model.name_or_path)
        if not (recipe.model.is_trainable or only_audit):
            problems.append(
                f"{path}: model.name_or_path: {recipe.model.name_or_path} cannot be trained; give a sequence classifier "
                f"(`cda audit {recipe.model.name_or_path}` measures it as it is)"
            )
    for held, problem in _written_keys(merged):
        # Another problem with the same setting would quote it.
        problems = [other for other in problems if held[:_QUOTED] not in other] + [f"{path}: {problem}"]
    if problems or recipe is None:
        raise RecipeError(problems)
    return LoadedRecipe(path, recipe, tuple(biases), only_audit, prompts=prompts, notes=tuple(notes))


def _written_keys(settings: Mapping[str, object]) -> list[tuple[str, str]]:
    """Values that hold a key, and what to say of each without it, before they reach a file or the terminal."""
    found = []
    for section in (("llm",), ("score", "served")):
        name = _at(settings, *section, "api_key_env")
        if isinstance(name, str) and (problem := variable_problem(name)):
            found.append((name, f"{'.'.join(section)}.api_key_env: {problem}"))
    address, model = _at(settings, "llm", "base_url"), _at(settings, "model", "name_or_path")
    if isinstance(address, str) and (problem := address_problem(address)):
        found.append((address, f"llm.base_url: {problem} (llm.api_key_env)"))
    if isinstance(model, str) and kind_of(model) == "served" and (problem := address_problem(bare_name(model))):
        found.append((bare_name(model), f"model.name_or_path: the address {problem} (score.served.api_key_env)"))
    return found


def _at(settings: object, *names: str) -> object:
    for name in names:
        settings = settings.get(name) if isinstance(settings, Mapping) else None
    return settings


def _names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.yaml"))


def _checked_layer(layer: Mapping[Any, Any], where: str, problems: list[str]) -> dict[str, Any]:
    """Give `model: NAME`, `data: NAME` and `audit: NAME` their long form."""
    result = dict(layer)
    for key in result:
        if not isinstance(key, str):
            problems.append(f"{where}: {key!r}: keys are words")
    for section in _PRESET_FOLDERS:
        if isinstance(result.get(section), str):
            result[section] = {"preset": result[section]}
    return {key: value for key, value in result.items() if isinstance(key, str)}


def _parse_overrides(overrides: Sequence[str], problems: list[str]) -> dict[str, object]:
    """`section.key=value` words to a nested mapping; values are YAML."""
    result: dict[str, object] = {}
    for word in overrides:
        path, equals, raw = word.partition("=")
        keys = path.split(".")
        if not equals or not all(keys) or len(keys) > _DEEPEST_KEY:
            problems.append(f"{word[:_LONGEST_NAME]}: an override has the form section.key=value")
            continue
        try:
            # The value of a setting such as llm.api_key_env may be a key.
            value = parse_yaml(raw, path if "key" in path or "url" in path else word[:_LONGEST_NAME])
        except RecipeError as error:
            problems += error.problems
            continue
        layer: dict[str, Any] = {keys[-1]: value}
        for key in reversed(keys[:-1]):
            layer = {key: layer}
        result = _merge(result, _checked_layer(layer, word, problems))
    return result


def _preset_layers(own: Mapping[str, Any], path: Path, problems: list[str]) -> list[dict[str, Any]]:
    layers: list[dict[str, Any]] = []
    for section, folder in _PRESET_FOLDERS.items():
        wanted = _merge(*layers, own).get(section)
        name = wanted.get("preset") if isinstance(wanted, dict) else None
        if name is None:
            continue
        preset = _find_preset(str(name), folder, path)
        if preset is None:
            names = _names(recipes_folder() / folder)
            problems.append(
                f"{path}: {section}: preset '{name}' is unknown.{did_you_mean(str(name), names)} Known: {', '.join(names)}. "
                f"For one of your own: {section}.{_OF_ONES_OWN[section]}=..."
            )
            continue
        try:
            layers.append(_checked_layer(read_yaml_mapping(preset), str(preset), problems))
        except RecipeError as error:
            problems += error.problems
    return layers


def _fitting(
    presets: dict[str, Any], layers: Sequence[Mapping[str, Any]], path: Path, problems: list[str], notes: list[str]
) -> dict[str, Any]:
    """Presets without what was made for another model than the one that is named.

    Given next to each other, model and preset are both meant; the embedded model's learning rate fits no other all the same.
    """
    made_for = presets.get("model", {}).get("name_or_path") if isinstance(presets.get("model"), Mapping) else None
    (named_at, name), (preset_at, preset) = (_last_given(layers, key) for key in ("name_or_path", "preset"))
    _note_numbers_of_data(presets, layers, notes)
    if made_for is None or name is None or name == made_for or {name, made_for} <= set(ADAPTERS):
        return presets
    if preset_at > named_at:
        problems.append(f"{path}: model={preset}: made for {made_for}, but the model is {name}. Add model.name_or_path={made_for}, "
                        f"or leave model={preset} out")  # fmt: skip
    elif preset_at == named_at and made_for in ADAPTERS:
        problems.append(f"{path}: model={preset}: its learning rate and LoRA targets are made for {made_for} and not for {name}; "
                        f"leave it out, and set lora.target_modules and train.learning_rate where the defaults do not fit")  # fmt: skip
    elif preset_at == named_at:
        notes.append(f"model={preset} is made for {made_for}; its settings are used for {name}, as asked")
    else:
        given = ", ".join(name for name in ("model", "lora", "train") if name in presets)
        notes.append(
            f"the preset model={preset} is made for {made_for}, not for {name}: its settings ({given}) are left out, and the "
            "defaults stand in their place (--dry-run lists them)"
        )
        return {section: content for section, content in presets.items() if section not in ("model", "lora", "train")}
    return presets


def _note_numbers_of_data(presets: Mapping[str, Any], layers: Sequence[Mapping[str, Any]], notes: list[str]) -> None:
    """Sizes that a preset sets for its own pairs stay with other pairs, and are said."""
    made_for = presets.get("data", {}).get("pairs") if isinstance(presets.get("data"), Mapping) else None
    _, pairs = _last_given(layers, "pairs", "data")
    _, preset = _last_given(layers, "preset", "data")
    own = _merge(*layers).get("synthesize")
    given = isinstance(own, Mapping) and own.get("counterfactuals") is not None
    if made_for is not None and pairs not in (None, made_for) and not given:
        notes.append(
            f"the preset data={preset} is made for {made_for}, not for {pairs}: its numbers of pairs are kept; "
            "synthesize.counterfactuals=null takes every eligible pair"
        )


def _last_given(layers: Sequence[Mapping[str, Any]], key: str, section: str = "model") -> tuple[int, Any]:
    """The last layer that gives a key of a section, and its value; -1 and None where none does."""
    found: tuple[int, Any] = (-1, None)
    for at, layer in enumerate(layers):
        content = layer.get(section)
        if isinstance(content, Mapping) and content.get(key) is not None:
            found = (at, content[key])
    return found


def _joint_alone(presets: Mapping[str, Any]) -> dict[str, Any]:
    """Presets for a recipe of several biases: numbers for `joint` in place of those for a bias by itself.

    So a bias's own number is one that the recipe or the command line gave, and goes before `joint`.
    """
    synthesize = presets.get("synthesize")
    if not isinstance(synthesize, Mapping):
        return dict(presets)
    counts = {
        setting: {"joint": count["joint"]} if isinstance(count, Mapping) and "joint" in count else count
        for setting, count in synthesize.items()
    }
    return {**presets, "synthesize": counts}


def _unknown_presets(own: Mapping[str, Any], path: Path) -> list[str]:
    wanted = {section: own[section].get("preset") for section in _PRESET_FOLDERS if isinstance(own.get(section), dict)}
    return [
        section
        for section, name in wanted.items()
        if name is not None and _find_preset(str(name), _PRESET_FOLDERS[section], path) is None
    ]


def _find_preset(name: str, folder: str, recipe_path: Path) -> Path | None:
    candidates = [recipe_path.parent / folder / f"{name}.yaml", recipes_folder() / folder / f"{name}.yaml"]
    if name.endswith((".yaml", ".yml")):
        candidates = [Path(name), recipe_path.parent / name]
    return next((candidate for candidate in candidates if is_a_file(candidate)), None)


def _merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Deep merge of mappings; anything else is replaced by the later layer."""
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            if isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
                result[key] = _merge(result[key], value)
            else:
                result[key] = value
    return result


def _load_biases(names: object, path: Path, problems: list[str]) -> list[Bias]:
    biases = []
    for name in [names] if isinstance(names, str) else names if isinstance(names, list) else []:
        try:
            biases.append(load_bias(str(name), path.parent))
        except RecipeError as error:
            problems += [f"{path}: biases: {problem}" for problem in error.problems]
    return biases


_Kind = TypeVar("_Kind", LabelPrompt, RewritePrompt, JudgePrompt)


def _load_prompts(merged: Mapping[str, Any], path: Path, problems: list[str]) -> Prompts:
    """The prompt files that a recipe names; in place of those with mistakes ours, the mistakes added to `problems`."""

    def loaded(kind: type[_Kind], otherwise: _Kind, *keys: str) -> _Kind:
        reference: Any = merged
        for key in keys:
            reference = reference.get(key) if isinstance(reference, Mapping) else None
        if not isinstance(reference, str):
            return otherwise
        try:
            return load_prompt(reference, kind, path.parent)
        except RecipeError as error:
            problems.extend(f"{path}: {'.'.join(keys)}: {problem}" for problem in error.problems)
            return otherwise

    own = ours()
    return Prompts(
        loaded(LabelPrompt, own.label, "label", "prompt"),
        loaded(RewritePrompt, own.rewrite, "rewrite", "prompt"),
        loaded(JudgePrompt, own.judge, "score", "judge", "prompt"),
    )


def _as_asked(prompts: Prompts, recipe: Recipe) -> Prompts:
    """The prompts with what the recipe says of the judge's reasons and orders."""
    options = recipe.score.judge
    said = {name: value for name in ("reasons", "orders") if (value := getattr(options, name)) is not None}
    return replace(prompts, judge=prompts.judge.model_copy(update=said))


def _prompt_problems(recipe: Recipe, prompts: Prompts, biases: Sequence[Bias], path: Path) -> list[str]:
    """What of the prompts does not go with the recipe's other settings."""
    problems = []
    if recipe.score.judge.by_token and recipe.score.judge.reasons is not None:
        problems.append(
            f"{path}: score.judge.reasons={recipe.score.judge.reasons}: a verdict of one token (score.judge.by_token) has no "
            "reasons; leave one of them out"
        )
    about_messages = [bias.name for bias in biases if bias.query_question is not None]
    for name, told in (("pair.user", prompts.label.pair.user), ("single.user", prompts.label.single.user)):
        if about_messages and "user_message" not in places(told):
            problems.append(
                f"{path}: label.prompt: {recipe.label.prompt}: {name}: needs {{user_message}} for '{about_messages[0]}', which "
                "asks a question about it (query_question)"
            )
    known = places(prompts.rewrite.user)
    asked = [bias.name for bias in biases if bias.min_words_of_chosen is not None]
    if "length" not in known and asked:
        problems.append(
            f"{path}: rewrite.prompt: {recipe.rewrite.prompt}: user: needs {{length}} for '{asked[0]}', whose rewrites must have "
            "a number of words"
        )
    return problems


def _judge_problems(recipe: Recipe, path: Path) -> list[str]:
    """What is wrong with the names of a judge or of a panel, whose first one stands for the LLM of everything else."""
    name, judges = recipe.model.name_or_path, judges_of(recipe.model.name_or_path)
    problems = []
    if "" in judges:
        problems.append(f"{path}: {name}: names no judge beside one of its commas; a panel is judge:NAME,NAME")
    problems += [f"{path}: {name}: names {one} twice" for one in dict.fromkeys(judges) if one and judges.count(one) > 1]
    if recipe.llm.model not in judges:
        who = f"the judge is {judges[0]}; name another as judge:NAME" if len(judges) == 1 else (
            f"the judges are {', '.join(judges)}; name one of them, or others as judge:NAME,NAME"
        )  # fmt: skip
        problems.append(f"{path}: llm.model={recipe.llm.model}: {who}")
    return problems


def _cross_checks(recipe: Recipe, biases: Sequence[Bias], path: Path) -> list[str]:
    problems = []
    names = [bias.name for bias in biases]
    if len(set(names)) != len(names):
        problems.append(f"{path}: biases: two bias files share a name ({', '.join(names)})")
    known = {*names, *builtin_names(), "joint"}
    for setting in ("counterfactuals", "supplementary"):
        counts = getattr(recipe.synthesize, setting)
        for name in counts if isinstance(counts, dict) else ():
            if name not in known:
                problems.append(
                    f"{path}: synthesize.{setting}.{name}: no such bias here.{did_you_mean(name, known)} "
                    f"Known: {', '.join(sorted(known))}"
                )
        if isinstance(counts, dict) and not (len(names) > 1 and "joint" in counts):
            problems += [
                f"{path}: synthesize.{setting}: has no number for '{name}'; add synthesize.{setting}.{name}=<number of pairs>, "
                f"or give one number for all: synthesize.{setting}=<number of pairs>"
                for name in names
                if name not in counts
            ]
    for number, objective in enumerate(recipe.objectives):
        for name in objective.target if isinstance(objective.target, dict) else ():
            if name not in names:
                problems.append(
                    f"{path}: objectives.{number}.target.{name}: not a bias of this recipe.{did_you_mean(name, names)} "
                    f"Its biases: {', '.join(names)}"
                )
    if recipe.synthesize.counterfactuals == 0 and recipe.data.contrasts is None:
        problems.append(
            f"{path}: synthesize.counterfactuals is 0 and data.contrasts is not set, so nothing debiases; give one of them"
        )
    llm = recipe.llm
    if llm.budget_usd is not None and llm.model is not None and llm.model not in llm.prices:
        problems.append(
            f"{path}: llm.budget_usd: no price of '{llm.model}' is known, so that spending cannot be limited; give "
            f"llm.prices='{{{llm.model}: {{input: <$ per million tokens>, output: <…>}}}}'"
        )
    for section in ("label", "synthesize"):
        by = getattr(recipe, section).by
        if by == "llm" and recipe.llm.model is None:
            problems.append(f"{path}: {section}.by is llm, but llm.model is not set")
    return problems
