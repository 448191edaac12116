"""What a user's code reads while it runs: files, listed folders and modules, and the environment variables that it asks for.

Python's audit events tell of files. Compiled code opens some unseen, mostly weights: of `safetensors` these are noted too, and
files of such types that lie next to something that was read. Not seen: the network, clocks, random numbers, other programs,
the environment as a whole (every variable of the shell would count), sizes and dates of files.
"""

from __future__ import annotations

import contextlib
import os
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from urllib.parse import unquote, urlsplit

from cda.files.reads import FOLDER, VARIABLE, states

_COMPILED_READERS = frozenset(
    (
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
    )
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
_INSTALLED = {"site-packages", "dist-packages", "__pycache__"}
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

    def file(self, path: Any) -> bool:
        """Note a file, unless the code has written it before; return True if it can be an input of the code."""
        place = _place(path)
        if place is None or place in self._written:
            return False
        if place not in self.read:
            self._add(place)
            with contextlib.suppress(OSError):
                for beside in os.scandir(Path(place).parent):
                    if Path(beside.name).suffix in _COMPILED_READERS and beside.path not in self._written:
                        self._add(beside.path)
        return True

    def wrote(self, path: Any) -> None:
        """Note a file that the code makes: unless it was read before, it is no input."""
        if (place := _place(path)) is not None:
            self._written.add(place)

    def folder(self, path: Any) -> None:
        """Note the names in a folder."""
        if (place := _place("." if path is None else path)) is not None:
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


def _hook(event: str, given: tuple[Any, ...]) -> None:
    if not _now or event not in _NOTED or getattr(_own_work, "is_on", False):
        return
    _own_work.is_on = True
    # An odd path: opening it says so.
    with contextlib.suppress(Exception):
        _NOTED[event](_now[-1], *given)
    _own_work.is_on = False


def _opened(watch: Watch, path: Any, _mode: object, flags: int | None) -> None:
    makes = os.O_WRONLY | os.O_TRUNC | os.O_EXCL
    (watch.wrote if (flags or 0) & makes else watch.file)(path)


def _connected(watch: Watch, database: Any) -> None:
    name = os.fsdecode(database)
    watch.file(unquote(urlsplit(name).path) if name.startswith("file:") else name)


def _listed(watch: Watch, path: Any = None) -> None:
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
            if vars(module).get("safe_open") is before and _place(getattr(module, "__file__", None) or "") is None:
                module.safe_open = after  # type: ignore[attr-defined]

    put(real, noted)
    try:
        yield
    finally:
        put(noted, real)


def _place(path: Any) -> str | None:
    """A file's or folder's path; None if it is, or leads to, one of Python, installed packages, this one or the system."""
    if isinstance(path, int):
        return None
    place = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 — a link may lead elsewhere later
    real = os.path.realpath(place)
    if place.startswith(_OTHERS) or real.startswith(_OTHERS):
        return None
    return None if _INSTALLED & {*Path(place).parts, *Path(real).parts} else place


def _asker(frame: FrameType | None) -> FrameType | None:
    """The frame of the user's own code that asks by way of Python's library; None if it is an import or an installed package."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib"):
            return None
        if not file.startswith(("<frozen", *_STDLIB)) or "site-packages" in file:
            return frame if _place(file) is not None else None
        frame = frame.f_back
    return None
