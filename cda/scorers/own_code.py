"""A user's function as a scorer: finding, loading, checking and calling it, a fingerprint of its code, and what it reads.

Python's audit events tell of files. Compiled code opens some unseen, mostly weights: of `safetensors` these are noted too, and
files of such types that lie next to something that was read. Not seen: the network, clocks, random numbers, other programs,
the environment as a whole (every variable of the shell would count), sizes and dates of files.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import inspect
import os
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

from cda.arrays import FloatArray
from cda.errors import ModelError, did_you_mean, type_in_words
from cda.files.paths import user_path
from cda.files.reads import FOLDER, VARIABLE, states
from cda.records import Prompt

_Place = str | bytes | os.PathLike[str] | int
"""What Python's audit events name as a file."""
_COMPILED_READERS = frozenset(
    [
        ".safetensors",
        ".onnx",
        ".pt",
        ".pth",
        ".bin",
        ".gguf",
        ".model",
        ".ubj",
        ".parquet",
        ".arrow",
        ".feather",
        ".ftz",
    ]
)
"""Endings of files that libraries open in compiled code."""
_STDLIB = tuple({str(Path(sysconfig.get_path(name)).resolve()) + os.sep for name in ("stdlib", "platstdlib")})
_OTHERS = (
    *_STDLIB,
    # A Python of the system shares its folder with everything else.
    *{f"{Path(folder).resolve()}{os.sep}" for folder in (sys.prefix, sys.base_prefix) if folder not in ("/", "/usr")},
    f"{Path(__file__).resolve().parents[1]}{os.sep}",
    *(f"/{folder}/" for folder in ("proc", "sys", "dev")),
)
_NOT_OWN = {"site-packages", "dist-packages", "__pycache__"}
_now: list[Watch] = []
"""The one whose code runs; a hook, once it is there, cannot be taken away again."""
_own_work = threading.local()
_is_hooked: list[bool] = []
_modules: dict[str, tuple[str, str]] = {}
"""Watched module to its file, and the file's state when it was loaded."""


class Watch:
    """The names of everything that was read inside of `watching`, and their states when they were first read."""

    def __init__(self) -> None:
        self.read: dict[str, str] = {}
        self.tell: Callable[[dict[str, str]], object] = lambda _: None
        """Called with `read` whenever it has grown."""
        self._written: set[str] = set()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the code inside, in all of its threads."""
        if not _is_hooked:
            _is_hooked.append(True)
            sys.addaudithook(_hook)
        before, modules = set(self.read), set(sys.modules)
        _now.append(self)
        try:
            with _asking_is_noted(self), _safetensors_are_noted(self):
                yield
        finally:
            _now.remove(self)
            # A module with bytecode from before is not opened itself.
            for name in set(sys.modules) - modules:
                file = getattr(sys.modules.get(name), "__file__", None)
                if file and Path(file).is_file() and self.file(file):
                    _modules[name] = (file, next(iter(states([file]).values())))
            # Files for a moment, made by other code.
            for place in set(self.read) - before:
                if self.read[place] != "none" and place.startswith(os.sep) and not Path(place).exists():
                    del self.read[place]
            if set(self.read) - before:
                self.tell(self.read)

    def file(self, path: _Place) -> bool:
        """Note a file, unless the code has written it before; return True if it can be an input of the code."""
        place = _own_place(path)
        if place is None or place in self._written:
            return False
        if place not in self.read:
            self._add(place)
            with contextlib.suppress(OSError):
                for beside in os.scandir(Path(place).parent):
                    if Path(beside.name).suffix in _COMPILED_READERS and beside.path not in self._written:
                        self._add(beside.path)
        return True

    def wrote(self, path: _Place) -> None:
        """Note a file that the code makes: unless it was read before, it is no input."""
        if (place := _own_place(path)) is not None:
            self._written.add(place)

    def folder(self, path: _Place | None) -> None:
        """Note the names in a folder."""
        if (place := _own_place("." if path is None else path)) is not None:
            self._add(FOLDER + place)

    def variable(self, name: str) -> None:
        """Note an environment variable."""
        self._add(VARIABLE + name)

    def _add(self, name: str) -> None:
        if name not in self.read:
            self.read |= states([name])


def forget_changed_modules() -> None:
    """Let modules that watched code has imported be imported again if their files have changed."""
    for name, (file, state) in list(_modules.items()):
        if states([file])[file] != state:
            del _modules[name]
            sys.modules.pop(name, None)


def _hook(event: str, given: tuple[object, ...]) -> None:
    if not _now or event not in _NOTED or getattr(_own_work, "is_on", False):
        return
    _own_work.is_on = True
    # An odd path: opening it says so.
    with contextlib.suppress(Exception):
        _NOTED[event](_now[-1], *given)
    _own_work.is_on = False


def _opened(watch: Watch, path: _Place, _mode: object, flags: int | None) -> None:
    makes = os.O_WRONLY | os.O_TRUNC | os.O_EXCL
    (watch.wrote if (flags or 0) & makes else watch.file)(path)


def _connected(watch: Watch, database: str | bytes | os.PathLike[str]) -> None:
    name = os.fsdecode(database)
    watch.file(unquote(urlsplit(name).path) if name.startswith("file:") else name)


def _listed(watch: Watch, path: _Place | None = None) -> None:
    if _asker(sys._getframe(2)) is not None:
        watch.folder(path)


_NOTED: dict[str, Callable[..., None]] = {
    "open": _opened,
    "sqlite3.connect": _connected,
    "os.listdir": _listed,
    "os.scandir": _listed,
}


@contextmanager
def _asking_is_noted(watch: Watch) -> Iterator[None]:
    """Note the environment variables that the user's own code asks for, by whatever way of Python's."""
    kind = type(os.environ)
    get, names = kind.__getitem__, kind.__iter__
    copied: set[tuple[CodeType, int]] = set()
    """Places in the code that take all of the variables, and ask for none."""

    def asked(environ: Any, key: Any) -> Any:
        frame = _asker(sys._getframe(1))
        if frame is not None and (frame.f_code, frame.f_lineno) not in copied:
            watch.variable(os.fsdecode(key))
        return get(environ, key)

    def listed(environ: Any) -> Iterator[Any]:
        if (frame := _asker(sys._getframe(1))) is not None:
            copied.add((frame.f_code, frame.f_lineno))
        return names(environ)

    kind.__getitem__, kind.__iter__ = asked, listed  # type: ignore[method-assign]
    try:
        yield
    finally:
        kind.__getitem__, kind.__iter__ = get, names  # type: ignore[method-assign]


@contextmanager
def _safetensors_are_noted(watch: Watch) -> Iterator[None]:
    import safetensors

    real = safetensors.safe_open

    def noted(filename: Any, *given: Any, **named: Any) -> Any:
        watch.file(filename)
        return real(filename, *given, **named)

    def put(before: object, after: object) -> None:
        for module in list(sys.modules.values()):
            if vars(module).get("safe_open") is before and _own_place(getattr(module, "__file__", None) or "") is None:
                module.safe_open = after  # type: ignore[attr-defined]

    put(real, noted)
    try:
        yield
    finally:
        put(noted, real)


def _own_place(path: _Place) -> str | None:
    """A file's or folder's path; None if it is, or leads to, one of Python, installed packages, this one or the system."""
    if isinstance(path, int):
        return None
    place = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 — a link may lead elsewhere later
    real = os.path.realpath(place)
    if place.startswith(_OTHERS) or real.startswith(_OTHERS):
        return None
    return None if _NOT_OWN & {*Path(place).parts, *Path(real).parts} else place


def _asker(frame: FrameType | None) -> FrameType | None:
    """The frame of the user's own code that asks by way of Python's library; None if it is an import or an installed package."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib"):
            return None
        if not file.startswith(("<frozen", *_STDLIB)) or "site-packages" in file:
            return frame if _own_place(file) is not None else None
        frame = frame.f_back
    return None


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


MEMORY = "memory:"
"""Begins the name by which settings know a model or function that is in memory; no reader sees it."""


def bare_name(name: str) -> str:
    """A model's name for readers: of an object in memory its own.

    >>> bare_name("memory:score"), bare_name("mine.py:score")
    ('score', 'mine.py:score')
    """
    return name.removeprefix(MEMORY)


def same_name(name: str) -> str:
    """What is wrong with two objects in memory of one name, and what to do."""
    own = "give each function a name of its own, by `def NAME` or `function.__name__ = 'NAME'`"
    return f"two objects of the name {bare_name(name)}; {own}"


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
    wanted = f"it gets lists, and must return {count} numbers, one for each text"
    if returned is None:
        raise ModelError(f"{where}: the function returned nothing; {wanted}")
    if isinstance(returned, str | bytes) or not (isinstance(returned, Sequence) or hasattr(returned, "__array__")):
        raise ModelError(f"{where}: the function returned {type_in_words(returned)}; {wanted}, in a list or array")
    try:
        array = np.asarray(returned)
    except Exception as error:  # lists of different lengths, tensors that are part of a graph, …
        raise ModelError(f"{where}: what the function returned cannot be read ({error}); {wanted}") from error
    if array.shape != (count,):
        shape = (
            f"{len(array):,} value{'' if len(array) == 1 else 's'}"
            if array.ndim == 1
            else f"an array of shape {array.shape}"
        )
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
