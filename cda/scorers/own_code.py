"""A user's function as a scorer: finding, loading, checking and calling it, and a fingerprint of its code."""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from cda.arrays import FloatArray
from cda.errors import ModelError, did_you_mean, type_in_words
from cda.files.paths import user_path
from cda.records import Prompt
from cda.scorers.watched import Watch, forget_changed_modules

_INSTALLED = ("site-packages", "dist-packages")


def own_files(file: Path, module: str | None = None) -> list[Path]:
    """A Python file, followed by the files that it imports from its own folder or package, sorted; no installed
    packages. `module`: dotted name under which it was imported, None if it was run as a file.
    """
    root = file.parent
    if module is not None:
        depth = module.count(".") + (file.name == "__init__.py")
        root = file.parents[depth]
    # Among installed packages everything is a neighbour: there, a package's own files count alone.
    alone = module.partition(".")[0] if module is not None and root.name in _INSTALLED else None
    files, left = {file}, [file]
    while left:
        for path in _imported(left.pop(), root):
            if path not in files and (alone is None or path.relative_to(root).parts[0].removesuffix(".py") == alone):
                files.add(path)
                left.append(path)
    return [file, *sorted(files - {file})]


def _imported(file: Path, root: Path) -> Iterator[Path]:
    """Files below a folder that a file's import statements name, anywhere in it."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return  # running it says what is wrong
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files_of(root, alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            start = root if node.level == 0 else file.parents[node.level - 1]
            parts = node.module.split(".") if node.module else []
            for alias in node.names:
                yield from _files_of(start, [*parts, alias.name])


def _files_of(folder: Path, parts: list[str]) -> Iterator[Path]:
    """The files of a dotted name's module and of the packages that it is in."""
    for n in range(len(parts) + 1):
        place = folder.joinpath(*parts[:n])
        if n and (file := place.with_suffix(".py")).is_file():
            yield file
            return
        if (file := place / "__init__.py").is_file():
            yield file
        elif n and not place.is_dir():
            return


@dataclass(frozen=True, slots=True)
class OwnCode:
    """A loaded function, by the user's name of it: of 2 columns it gives rewards, of 3 preferences. `file` is None if
    Python does not say; `in_memory` is a unique name of an object that was not loaded by its name.
    """

    name: str
    function: Callable[..., object]
    file: Path | None
    n_columns: int
    in_memory: str | None = None
    batch_rows: int | None = None
    """Texts in a call, if not the usual number."""
    watch: Watch = field(default_factory=Watch, compare=False)
    """What it has read, as it was loaded and in all calls."""

    @property
    def settings(self) -> Mapping[str, object]:
        """Name, number of orders, and a hash of the file and of its imports from its own folder or package. Its imports
        from installed packages may change without a trace here; for what it reads there is `watch`.
        """
        if self.in_memory is not None:
            return {"scorer": self.name, "in memory": self.in_memory}
        source = self.name.rpartition(":")[0]
        module = None if source.endswith(".py") else source
        files = [] if self.file is None or self.file.suffix != ".py" else own_files(self.file, module)
        contents = [path.read_bytes() for path in files]
        text = b"".join([*contents[:1], *(hashlib.sha256(content).digest() for content in contents[1:])])
        # Preferences were once asked for in one order, which is another result.
        asked = {"orders": "both"} if self.n_columns == 3 else {}
        return {"scorer": self.name, "code": hashlib.sha256(text).hexdigest()[:16]} | asked

    def numbers(self, rows: range, prompts: Sequence[Prompt], *texts: Sequence[str]) -> FloatArray:
        """The function's numbers for the texts of some rows, shape (len(rows),); ModelError if it raises or gives anything else."""
        where = f"{self.name}, texts {rows.start + 1:,} to {rows.stop:,}"
        conversations = [
            [{"role": message.role, "content": message.content} for message in prompt] for prompt in prompts
        ]
        try:
            with self.watch.watching():
                returned = self.function(conversations, *map(list, texts))
        except (Exception, SystemExit) as error:
            raise ModelError(f"{_place(error, self.file)}: {_said(error)} ({where})") from error
        return _as_numbers(returned, len(rows), where)


def is_own(name: str) -> bool:
    """True if a name has the form of a user's scorer.

    >>> is_own("mine.py:score"), is_own("pkg.mod:score"), is_own("org/model"), is_own("http://localhost:8000")
    (True, True, False, False)
    """
    module, colon, function = name.rpartition(":")
    if not colon or not all(part.isidentifier() for part in function.split(".")):
        return False
    return module.endswith(".py") or all(part.isidentifier() for part in module.split("."))


def load_code(name: str) -> OwnCode:
    """Find, load and check the function of a name such as `package.module:function` or `path/to/file.py:function`. This
    runs its module; a file's own folder, or for a module the current one, is put at the end of Python's search path.
    ModelError if there is no such thing, it fails while it is loaded, or takes neither two nor three parameters.
    """
    if not is_own(name):
        raise ModelError(f"'{name}' is no scorer of your own, like package.module:function or path/to/file.py:function")
    source, _, attribute = name.rpartition(":")
    watch = Watch()
    forget_changed_modules()
    with watch.watching():
        module = _from_file(Path(source)) if source.endswith(".py") else _from_name(source)
    function: Any = module
    for part in attribute.split("."):
        if not hasattr(function, part):
            known = [
                other for other, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
            ]
            raise ModelError(
                f"{source} has no '{attribute}'.{did_you_mean(attribute, known)} "
                f"It has: {', '.join(sorted(known)) or 'no functions'}"
            )
        function = getattr(function, part)
    return replace(checked_code(name, function, module), watch=watch)


def checked_code(name: str, function: Any, module: ModuleType | None, in_memory: str | None = None) -> OwnCode:
    """Check a function; ModelError if it takes neither two nor three parameters."""
    file = getattr(module, "__file__", None)
    return OwnCode(name, function, Path(file) if file else None, _n_columns(name, function), in_memory)


def _from_file(path: Path) -> ModuleType:
    path = user_path(path).resolve()
    if not path.is_file():
        raise ModelError(f"{path}: no such file")
    _search_too(path.parent)
    # A unique name, so that a scorer called json.py hides nothing; known to Python, as dataclasses and pickle need it.
    module = ModuleType(f"_own_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        # Not by way of the import system, whose cached bytecode misses a change of equal size within a second.
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        raise ModelError(f"{_place(error, path)}: {_said(error)} (while it was loaded)") from error
    return module


def _from_name(name: str) -> ModuleType:
    _search_too(Path.cwd())
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and (name == missing or name.startswith(f"{missing}.")):
            raise ModelError(
                f"no module '{missing}' here ({Path.cwd()}) or among the installed packages; a file is named as "
                "path/to/file.py:function"
            ) from None
        raise ModelError(f"{_place(error, None)}: {_said(error)} (while {name} was loaded)") from error


def _search_too(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _n_columns(name: str, function: object) -> int:
    """2 or 3, from the parameters that have no default."""
    if inspect.isclass(function):
        raise ModelError(f"{name} is a class; name a function, or an object that can be called")
    if not callable(function):
        raise ModelError(f"{name} is no function")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise ModelError(f"{name} is async or a generator; it must be a plain function that returns its numbers")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise ModelError(f"{name}: Python does not tell its parameters; wrap it in a function of your own") from None
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [given for given in parameters if given.default is given.empty and given.kind not in optional]
    if len(needed) not in (2, 3) or any(given.kind is given.KEYWORD_ONLY for given in needed):
        raise ModelError(
            f"{name} needs the parameters ({', '.join(given.name for given in needed)}); it must need two, (prompts, responses) "
            "for rewards, or three, (prompts, first, second) for preferences; others need a default"
        )
    return len(needed)


def _as_numbers(returned: Any, count: int, where: str) -> FloatArray:
    if hasattr(returned, "detach"):  # a torch tensor may be on another device, in a type that numpy lacks
        returned = returned.detach().double().cpu().numpy()
    wanted = f"it must return {count} numbers, one for each text"
    if returned is None:
        raise ModelError(f"{where}: the function returned nothing; {wanted}")
    if isinstance(returned, str | bytes) or not (isinstance(returned, Sequence) or hasattr(returned, "__array__")):
        raise ModelError(f"{where}: the function returned {type_in_words(returned)}; {wanted}, in a list or array")
    try:
        array = np.asarray(returned)
    except Exception as error:  # lists of different lengths, tensors that are part of a graph, …
        raise ModelError(f"{where}: what the function returned cannot be read ({error}); {wanted}") from error
    if array.shape != (count,):
        shape = f"{len(array):,} values" if array.ndim == 1 else f"an array of shape {array.shape}"
        raise ModelError(f"{where}: the function returned {shape}; {wanted}")
    if array.dtype.kind not in "fiu":
        odd = next((row for row, value in enumerate(returned) if not _is_number(value)), 0)
        raise ModelError(f"{where}: value {odd + 1} is {returned[odd]!r:.40}, no number; {wanted}")
    return array.astype(np.float64)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _place(error: BaseException, file: Path | None) -> str:
    """File and line of the failure: its last frame in the user's folder, else the first frame that is not ours."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    ours = (__file__, importlib.__file__)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename not in ours and not frame.filename.startswith("<frozen importlib")
    ]
    if not frames:
        return str(file) if file is not None else "your scorer"
    folder = (file or Path(frames[0].filename)).resolve().parent
    theirs = [frame for frame in frames if Path(frame.filename).resolve().parent == folder]
    last = theirs[-1] if theirs else frames[0]
    return f"{last.filename}:{last.lineno}"


def _said(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"it ends the program (sys.exit({error.code!r})); put what a script does under if __name__ == '__main__'"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
