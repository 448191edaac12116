"""Keyword arguments of the Python API as the settings of a recipe, and what every call agrees to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from cda.api.data import Data, Model, as_reference, opened_model
from cda.errors import RecipeError
from cda.files.paths import user_path
from cda.launch import use_all_cores
from cda.quiet import progress_bars, quiet_libraries
from cda.recipe.load import LoadedRecipe, load_model_audit
from cda.recipe.schema import ModelSection
from cda.resources.artifacts import told_apart

Biases = str | Path | Sequence[str | Path]
RUNS = Path("runs")
MEMORY_TOKENS = 2048
"""Longest text of a model in memory, where model.max_length_tokens says nothing else."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What every call is told beside its settings.

    Attributes:
        out: Folder for what is made; None for the one that the command takes.
        budget_usd: Dollars that may be spent on LLMs.
        confirm: Whether spending was agreed to, whatever it comes to.
        progress: Whether progress bars are shown.
    """

    out: str | Path | None = None
    budget_usd: float | None = None
    confirm: bool = False
    progress: bool = True

    @property
    def inputs(self) -> Path:
        """Folder for rows that were given in memory: beside the run."""
        return (user_path(self.out).parent if self.out is not None else RUNS) / "inputs"

    def settings(self, given: Mapping[str, object]) -> dict[str, object]:
        """Keyword settings as a nested mapping, with the folder and the budget."""
        found = nested(given)
        if self.out is not None:
            put(found, ("run", "folder"), str(self.out))
        if self.budget_usd is not None:
            put(found, ("llm", "budget_usd"), self.budget_usd)
        return found

    def agreed(self, loaded: LoadedRecipe) -> LoadedRecipe:
        """The recipe, which asks nobody."""
        return replace(loaded, confirmed=self.confirm, asks=False)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Around everything that a call does."""
        use_all_cores()
        quiet_libraries()
        with progress_bars(self.progress):
            yield


def nested(given: Mapping[str, object]) -> dict[str, object]:
    """Settings by section; `{"model.precision": "fp32"}` and `{"model": {"precision": "fp32"}}` are the same.

    >>> nested({"model.precision": "fp32", "model": {"revision": "main"}, "seed": 1})
    {'model': {'precision': 'fp32', 'revision': 'main'}, 'seed': 1}
    """
    found: dict[str, object] = {}
    for key, value in given.items():
        put(found, tuple(key.split(".")), value)
    return found


def put(into: dict[str, object], path: tuple[str, ...], value: object) -> None:
    """Set a value at a path of sections, beside what is there."""
    for key in path[:-1]:
        inner = into.get(key)
        into[key] = inner = dict(inner) if isinstance(inner, Mapping) else {}
        into = inner
    known = into.get(path[-1])
    into[path[-1]] = {**known, **value} if isinstance(known, Mapping) and isinstance(value, Mapping) else value


def put_data(settings: dict[str, object], terms: Terms, places: Mapping[str, tuple[str, Data | None]]) -> None:
    """Put data into settings, rows as files.

    Args:
        settings: Changed in place.
        terms: Say where files go.
        places: Setting such as `audit.votes` to the argument's name and what was given; None is left out, and `"none"` is
            for none at all, as on the command line.
    """
    for path, (name, data) in places.items():
        if data is not None:
            said = None if isinstance(data, str) and data == "none" else as_reference(data, name, terms.inputs)
            put(settings, tuple(path.split(".")), said)


def bias_names(biases: Biases | None) -> list[str] | None:
    """Names and files of biases, one or several."""
    if biases is None:
        return None
    return [str(biases)] if isinstance(biases, str | Path) else [str(one) for one in biases]


@contextmanager
def loaded_for_model(
    model: Model, settings: Mapping[str, object], terms: Terms, where: str, called: Callable[[str], str] = str
) -> Iterator[LoadedRecipe]:
    """Settings for a model that is measured as it is, with what stands behind it where it is in memory.

    Args:
        model: Name or object.
        settings: Nested.
        terms: Of the call.
        where: Names the function in messages.
        called: Makes the name of the run's folder from that of the recipe, where another is wanted.

    Raises:
        RecipeError: Carries every wrong setting.
        ModelError: The model is nothing that scores.
    """
    section = settings.get("model")
    given = section.get("max_length_tokens") if isinstance(section, Mapping) else None
    longest = given if isinstance(given, int) else MEMORY_TOKENS
    with terms.kept(), opened_model(model, longest) as (name, scorer):
        loaded = terms.agreed(load_model_audit(name, settings, where=where))
        if scorer is not None:
            _refuse_loading(section if isinstance(section, Mapping) else {}, where)
            loaded.opened.once(("scorer", name), lambda: scorer)
        if loaded.recipe.run.folder is None:
            folder = str(RUNS / called(loaded.recipe.name))
            run = loaded.recipe.run.model_copy(update={"folder": folder})
            loaded = replace(loaded, recipe=loaded.recipe.model_copy(update={"run": run}))
        yield loaded


def named_apart(what: str, target: str, beside: Mapping[str, object], words: Sequence[str], name: str) -> str:
    """Name of the folder of a call: of its first word, the model, and what else was asked for (see `told_apart`)."""
    return f"{what}-{name.removeprefix('audit-')}{told_apart(target, beside, words)}"


def _refuse_loading(section: Mapping[str, object], where: str) -> None:
    """Settings that say how a model is loaded mean nothing of one that is there already."""
    problems = [
        f"{where}: model.{name}: says nothing of a model or function in memory, which is asked as it is"
        for name in section
        if name in ModelSection.model_fields and name != "max_length_tokens"
    ]
    if problems:
        raise RecipeError(problems)
