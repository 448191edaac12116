"""Arguments of the Python API, and words of the command line: their types checked, and as the settings of a recipe; models and rows
in memory as the names that it holds."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from itertools import islice
from os import PathLike
from pathlib import Path
from textwrap import fill
from typing import Any, TypeVar

from cda.data.load import load_rows
from cda.data.tables import rows_in
from cda.errors import RecipeError
from cda.files.paths import is_a_file, prose_problem, refuse_prose, user_path
from cda.files.yaml_file import unknown_key
from cda.inert import clipped
from cda.installed import check_installed
from cda.jobs.given import file_of, python_call
from cda.jobs.options import Biases, Confirm, Data, Model, Option, defaults_of, options_of
from cda.launch import use_all_cores
from cda.recipe.load import Consent, LoadedRecipe, is_recipe, load_model_audit
from cda.recipe.schema import ModelSection, Recipe
from cda.report.drawing import FigureForm
from cda.resources.artifacts import folder_suffix
from cda.results.audit import AuditResult
from cda.results.kinds import FILES
from cda.run import RunFolder
from cda.scorers.own import opened_model
from cda.scorers.own_code import bare_name, same_name
from cda.terminal import progress_bars, quiet_libraries

RUNS = Path("runs")
ROWS = "a file, hub id or list of dicts"
"""What data are given as."""
MEMORY_TOKENS = 2048
"""Default of `model.max_length_tokens` for a model in memory."""


def check_types(function: str, known: Mapping[str, Option], given: Mapping[str, Any]) -> None:
    """Refuse values of another type than their options are declared with: a RecipeError carries all of them."""
    wrong = {name: value for name, value in given.items() if name in known and not known[name].takes(value)}
    problems = [
        f"{function}: {name}: give {known[name].form}; found {clipped(repr(value), 80)}"
        for name, value in wrong.items()
    ]
    for name, value in given.items():
        if name in known and known[name].names_files and name not in wrong:
            wanted = ROWS if known[name].plain == Data else known[name].form or "a path or name"
            each = value if isinstance(value, list | tuple) else [value]
            texts = dict.fromkeys(prose_problem(one, f"{function}: {name}", wanted) for one in each)
            problems += [text for text in texts if text]
    if problems:
        raise RecipeError(problems)


F = TypeVar("F", bound=Callable[..., Any])
_NAMED = {str(kind | None): f"{name} | None" for name, kind in (("Model", Model), ("Data", Data), ("Biases", Biases))}
_NAMED[str(Confirm)] = "Confirm"


_LAST = ("dry_run", "out", "budget_usd", "confirm", "progress", "limit", "fresh", "overrides")
"""Options that stand last in signatures, in this order."""


def declared(options: type) -> Callable[[F], F]:
    """Make a function of `**options: Unpack[…]` one with these options as parameters: for `inspect.signature` and completion with
    their types and defaults, for `help()` with a sentence each, before that of `settings`. The function gets all of them."""
    known = dict(sorted(options_of(options).items(), key=lambda item: _LAST.index(item[0]) if item[0] in _LAST else -1))
    defaults = defaults_of(options)

    def decorated(function: F) -> F:
        @wraps(function)
        def called(*args: object, **given: object) -> object:
            with nullcontext() if given.get("overrides") is not None else python_call():
                return function(*args, **defaults | given)

        parameters = [
            *islice(inspect.signature(function).parameters.values(), len(inspect.signature(function).parameters) - 1),
            *(
                inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, default=option.arg.default, annotation=_said(option.kind)
                )
                for name, option in known.items()
            ),
            inspect.Parameter("settings", inspect.Parameter.VAR_KEYWORD, annotation="object"),
        ]
        called.__signature__ = inspect.signature(function).replace(parameters=parameters)  # type: ignore[attr-defined]
        lines = (fill(f"{name}: {option.arg.says}", 126, initial_indent=" " * 4, subsequent_indent=" " * 8)
                 for name, option in known.items())  # fmt: skip
        before, settings, after = str(inspect.getdoc(function)).partition("    settings: ")
        called.__doc__ = before + "".join(f"{line}\n" for line in lines) + settings + after
        return called  # type: ignore[return-value]  # with the parameters of its declaration

    return decorated


def _said(kind: Any) -> str:
    """A type as annotations write it."""
    return _NAMED.get(str(kind)) or re.sub(r"\b(collections\.abc|pathlib|typing)\.", "", inspect.formatannotation(kind))


@dataclass(frozen=True)
class Terms:
    """How a function of the API was called: a RecipeError carries arguments of another type.

    With the option `overrides`, which are settings as words `section.key=value`, messages name the command line.
    """

    function: str
    settings: Mapping[str, object]
    """Keywords that are no options: settings of a recipe."""
    known: Mapping[str, Option]
    options: Mapping[str, Any]
    """Every declared option, with its default if it was not given."""
    check: Callable[[LoadedRecipe], None] | None = None
    """A further check of the settings, such as whether they measure what `--fail-if` is about."""

    @classmethod
    def of(cls, function: str, declared: type, given: Mapping[str, Any]) -> Terms:
        """Terms of a call with declared options; what else was given are settings."""
        known = options_of(declared)
        options = {name: given.get(name, option.arg.default) for name, option in known.items()}
        check_types(function, known, options)
        if figures := options.get("figures"):
            FigureForm.of(figures)
        return cls(function, {name: value for name, value in given.items() if name not in known}, known, options)

    def __getitem__(self, option: str) -> Any:
        """The value of an option; None of one that this function has not."""
        return self.options.get(option)

    @property
    def given(self) -> list[str]:
        """Options with another value than their default."""
        return [name for name, option in self.known.items() if self[name] is not option.arg.default]

    def but(self, **options: object) -> Terms:
        """The same with other values of options."""
        return replace(self, options={**self.options, **options})

    @property
    def where(self) -> str:
        return self.function if self["overrides"] is None else "command line"

    @property
    def words(self) -> list[str]:
        """All settings as words; they tell the default folders of different calls apart."""
        limit = [] if self["limit"] is None else [f"limit={self['limit']}"]
        own = (f"{name}={value}" for name, value in sorted(self.settings.items()))
        return [*(self["overrides"] or ()), *own, *limit]

    @property
    def inputs(self) -> Path:
        """Folder for rows that were given in memory: next to the run."""
        return (RUNS if self["out"] is None else user_path(self["out"]).parent) / "inputs"

    @cached_property
    def files(self) -> Mapping[str, str]:
        """The data of options as `as_reference` names them, those in memory written to files; None is left out."""
        given = {name: self[name] for name, option in self.known.items() if option.plain == Data}
        return {name: as_reference(data, name, self.inputs) for name, data in given.items() if data is not None}

    def nested(self) -> dict[str, object]:
        """Settings by section, with those that options stand for; RecipeError for unknown ones from Python. `"none"` as data sets nothing at all, as on the command line."""
        names = sorted({*self.known, *Recipe.model_fields} - {"overrides"})
        if self["overrides"] is None and (wrong := [name for name in nested(self.settings) if name not in names]):
            raise RecipeError([f"{self.function}: {unknown_key(name, names, Recipe)}" for name in wrong])
        settings = nested(self.settings)
        if (model := self["model"]) is not None:
            set_at(settings, "model", model if isinstance(model, dict) else {"name_or_path": str(model)})
        for name, option in self.known.items():
            value = self.files.get(name, self[name])
            value = several(value) if option.several else str(value) if isinstance(value, Path) else value
            if value is not None and value is not False and value != []:
                for path in option.arg.setting.split():
                    set_at(settings, path, None if name in self.files and value == "none" else value)
        return settings

    def agreed(self, loaded: LoadedRecipe) -> LoadedRecipe:
        """Settings with the consent to their cost; errors as of `check`."""
        if self.check is not None:
            self.check(loaded)
        notes = [*loaded.notes]
        if self["limit"] is not None:
            notes.append(
                f"a quick look: at most {self['limit']} of each file and bias, drawn with seed {loaded.recipe.seed} (limit)"
            )
        return replace(loaded, consent=self.consent, notes=tuple(notes), fresh=bool(self["fresh"]))

    def apart(self, loaded: LoadedRecipe) -> LoadedRecipe:
        """Settings with a default folder of its own for a quick look (`limit`), which displaces no larger run, and for an audit of
        other biases or texts than those of the audit in the default folder."""
        recipe = loaded.recipe
        if recipe.run.folder is not None:
            return loaded
        folder = str(recipe.run_path) if self["limit"] is None else of_limit_alone(recipe.run_path, self["limit"])
        held, asked = RunFolder(Path(folder)).manifest(), _measured(recipe.model_dump(mode="json"))
        others = [value for name, value in asked.items() if value != _measured(held.recipe)[name]]
        if loaded.only_audit and "audit" in held.stages and others:
            folder += folder_suffix("audit", {"of": others[0] or "none"}, [str(asked)])
        run = recipe.run.model_copy(update={"folder": folder})
        return replace(loaded, recipe=recipe.model_copy(update={"run": run}))

    @property
    def consent(self) -> Consent:
        """As of a recipe with these terms."""
        return "given" if self["confirm"] is True else "by question" if self["confirm"] == "ask" else "by budget"

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Use all cores, silence libraries, and show progress bars if they are wanted."""
        check_installed()
        use_all_cores()
        quiet_libraries()
        with progress_bars(bool(self["progress"])):
            yield


def of_limit_alone(folder: Path, limit: object) -> str:
    """The default folder of a run with a limit, by that of the whole run.

    >>> of_limit_alone(Path("runs/jargon"), 20), of_limit_alone(Path(), 20)
    ('runs/jargon-limit-20', '-limit-20')
    """
    return f"{folder if folder.name else ''}-limit-{limit}"


def _measured(recipe: Mapping[str, Any]) -> Mapping[str, Any]:
    """The biases and texts of an audit, by its settings."""
    audit = recipe.get("audit") or {}
    texts = {name: audit.get(name) for name in ("contrasts", "triples", "quality", "samples")}
    return {"of": sorted(recipe.get("biases") or ()), **texts}


def nested(given: Mapping[str, object]) -> dict[str, object]:
    """Settings by section; `{"model.precision": "fp32"}` and `{"model": {"precision": "fp32"}}` are the same.

    >>> nested({"model.precision": "fp32", "model": {"revision": "main"}, "seed": 1})
    {'model': {'precision': 'fp32', 'revision': 'main'}, 'seed': 1}
    """
    settings: dict[str, object] = {}
    for key, value in given.items():
        set_at(settings, key, value)
    return settings


def set_at(into: dict[str, object], path: str, value: object) -> None:
    """Set a value at a dotted path, keeping the other settings of its section; a section given as a word names a preset.

    Raises RecipeError if a section is neither a dict nor a word.
    """
    *sections, last = path.split(".")
    for key in sections:
        inner = into.get(key)
        inner = {"preset": inner} if isinstance(inner, str) else {} if inner is None else inner
        if not isinstance(inner, Mapping):
            raise RecipeError([f"{key}: give a dict of settings; found {inner!r}"])
        into[key] = inner = dict(inner)
        into = inner
    known = into.get(last)
    into[last] = {**known, **value} if isinstance(known, Mapping) and isinstance(value, Mapping) else value


def as_reference(data: Data, name: str, folder: Path) -> str:
    """Return a recipe's name for data: a path or hub id unchanged, or a new file of the rows, named after their content.

    `name` is the kind of data, such as `contrasts`; part of the file's name and of messages. Equal rows share one file, which is
    never overwritten with other rows. Raises DataError for no rows, or what JSON cannot hold; RunError if nothing can be written.
    """
    refuse_prose(data, name, ROWS)
    if isinstance(data, str | PathLike):
        return str(data)
    return file_of(rows_from(data, name), name, folder)


def rows_from(data: Data, name: str) -> list[dict[str, object]]:
    """Rows of data in memory, or of a file; DataError as `as_reference`, or for a file that cannot be read."""
    refuse_prose(data, name, ROWS)
    if isinstance(data, str | PathLike):
        return [dict(row) for row in load_rows(str(data))]
    return [dict(row) for row in rows_in(data, name)]


def several(given: str | PathLike[str] | Sequence[str | PathLike[str]] | None) -> list[str]:
    """One name or path, or several of them, as texts; none for None."""
    return [str(given)] if isinstance(given, str | PathLike) else [str(each) for each in given or ()]


def path_text(path: str | Path | None) -> str | None:
    return None if path is None else str(path)


def refuse_results(model: object, of_one: bool = True) -> list[str]:
    """The mistake of giving the folder of a command's results where a model is measured; that of a finished run if it is `of_one`."""
    if not isinstance(model, str | PathLike):
        return []
    folder = user_path(str(model))
    if of_one and is_a_file(folder / "audit" / AuditResult.made_by.file):
        return [
            f"{model}: the folder of a finished run. `cda report {model}` draws its report, `cda compare {model} …` compares it"
        ]
    held = [name for name in FILES if is_a_file(folder / name)]
    return [f"{model}: holds {held[0]}, the result of another command; give a model"] if held else []


def refuse_recipe(model: object) -> list[str]:
    """The mistake of giving a recipe although a model is measured as it is."""
    if isinstance(model, str) and is_recipe(model):
        return [f"{model}: a recipe; give a model (hub id, folder, `embedded`, judge:NAME, …)"]
    return []


@contextmanager
def loaded_for_model(model: Model, settings: Mapping[str, object], terms: Terms) -> Iterator[LoadedRecipe]:
    """Settings for a model that is measured as it is; a model in memory is opened for the run. A RecipeError carries every
    wrong setting; a ModelError says that the model cannot score."""
    section = settings.get("model")
    section = section if isinstance(section, Mapping) else {}
    longest = section.get("max_length_tokens")
    with terms.quiet(), opened_model(model, longest if isinstance(longest, int) else MEMORY_TOKENS) as (name, scorer):
        loaded = terms.agreed(load_model_audit(name, settings, terms["overrides"] or (), terms.where))
        if scorer is not None:
            problems = [
                f"{terms.where}: model.{key}: has no effect on a model or function in memory, which is used as it is"
                for key in section
                if key in ModelSection.model_fields and key != "max_length_tokens"
            ]
            if problems:
                raise RecipeError(problems)
            loaded.opened.once(("scorer", bare_name(name)), lambda: scorer)
        yield loaded


@contextmanager
def loaded_with_folder(
    model: Model,
    terms: Terms,
    settings: dict[str, object],
    inputs: Mapping[str, object],
    others: Sequence[object] = (),
    second: Model | None = None,
    argument: str = "against",
    problems: Sequence[str] = (),
) -> Iterator[tuple[LoadedRecipe, str | None]]:
    """Settings as `loaded_for_model`, and the name of the second model, in memory or not, that `argument` gives; None without
    one. Discovery's is a setting as well. RecipeError: these `problems`, or a recipe in place of the model.

    Without a folder of the user's own, its name is the function's, the model, the inputs (the second model among them), and a
    fingerprint of these and of `others`, which tell it from other calls' folders.
    """
    if problems := [*problems, *refuse_recipe(model)]:
        raise RecipeError(problems)
    with ExitStack() as stack:
        other, scorer = None, None
        if second is not None:
            other, scorer = stack.enter_context(opened_model(second, MEMORY_TOKENS))
            if argument == "judge":
                set_at(settings, "discover.judge", other)
        loaded = stack.enter_context(loaded_for_model(model, settings, terms))
        if loaded.recipe.run.folder is None:
            target = str(model) if isinstance(model, str | PathLike) else "memory"
            apart = folder_suffix(target, {**inputs, argument: other}, [str(value) for value in others if value])
            word = terms.function.removeprefix("cda.").replace("_", "-")
            folder = str(RUNS / f"{word}-{loaded.recipe.name.removeprefix('audit-')}{apart}")
            run = loaded.recipe.run.model_copy(update={"folder": folder})
            loaded = replace(loaded, recipe=loaded.recipe.model_copy(update={"run": run}))
        if scorer is not None:
            if other == loaded.recipe.model.name_or_path:
                raise RecipeError([f"model and {argument}: {same_name(other)}"])
            loaded.opened.once(("scorer", bare_name(str(other))), lambda: scorer)
        yield loaded, other
