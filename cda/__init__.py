"""Find the stylistic biases of reward models and LLM judges, measure them, and train them away.

>>> import cda
>>> audit = cda.audit("my-org/my-reward-model", biases=["jargon", "length"])  # doctest: +SKIP
>>> audit.skew["jargon"].before  # doctest: +SKIP
>>> run = cda.train("jargon", model="my-org/my-reward-model", pairs="my-org/my-preferences")  # doctest: +SKIP
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

# pip checks this too, but not for a checkout that runs uninstalled. What comes before is understood by any Python 3.
if not (3, 11) <= sys.version_info[:2] <= (3, 14):
    from pathlib import Path

    _found = ".".join(map(str, sys.version_info[:2]))
    _problem = f"cda runs on Python 3.11 to 3.14, and this is {_found} ({sys.executable}). Start it with one of those"
    # A command ends with a sentence; a program that imports cda gets an error that it can catch.
    if sys.argv[0] == "-m" or Path(sys.argv[0]).name == "cda" or Path(sys.argv[0]).resolve().parent.name == "scripts":
        print(f"error: {_problem}", file=sys.stderr)
        sys.exit(2)
    raise ImportError(_problem)

if TYPE_CHECKING:
    from cda.api.benchmarks import audit_data, best_of, calibrate, dose, quality, score
    from cda.api.results import (
        Audit,
        BestOf,
        Calibration,
        Comparison,
        DataAudit,
        Discovery,
        Dose,
        Quality,
        Run,
        load,
    )
    from cda.api.runs import audit, compare, discover, label, new_bias, reward_function, rewrite, train
    from cda.errors import CdaError, DataError, LLMError, ModelError, RecipeError, RunError, SpendingError
    from cda.resources.reward_function import RewardFunction
    from cda.results.base import Estimate, Missing

__version__ = "0.1.0"

# Public names by module; loaded on first use, so that `import cda` takes no time.
_NAMES = {
    "cda.api.benchmarks": ("audit_data", "best_of", "calibrate", "dose", "quality", "score"),
    "cda.api.results": (
        "Audit",
        "BestOf",
        "Calibration",
        "Comparison",
        "DataAudit",
        "Discovery",
        "Dose",
        "Quality",
        "Run",
        "load",
    ),
    "cda.api.runs": ("audit", "compare", "discover", "label", "new_bias", "reward_function", "rewrite", "train"),
    "cda.errors": ("CdaError", "DataError", "LLMError", "ModelError", "RecipeError", "RunError", "SpendingError"),
    "cda.resources.reward_function": ("RewardFunction",),
    "cda.results.base": ("Estimate", "Missing"),
}
_MEANT = {
    "data": "audit_data(pairs)",
    "report": "load(folder).report(file)",
    "win_rate": "quality(model, first, over=second)",
    "WinRate": "Quality",
    "leaderboard": "compare(folder)",
    "Leaderboard": "Comparison",
    "Panel": "Comparison",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = [
    "Audit",
    "BestOf",
    "Calibration",
    "CdaError",
    "Comparison",
    "DataAudit",
    "DataError",
    "Discovery",
    "Dose",
    "Estimate",
    "LLMError",
    "Missing",
    "ModelError",
    "Quality",
    "RecipeError",
    "RewardFunction",
    "Run",
    "RunError",
    "SpendingError",
    "audit",
    "audit_data",
    "best_of",
    "calibrate",
    "compare",
    "discover",
    "dose",
    "label",
    "load",
    "new_bias",
    "quality",
    "reward_function",
    "rewrite",
    "score",
    "train",
]


class _Folder(ModuleType):
    """A folder of the code that has the name of a command but of no function."""

    def __call__(self, *_: object, **__: object) -> None:
        name = self.__name__.removeprefix("cda.")
        raise TypeError(f"cda.{name} is a folder of the code, no function; use cda.{_MEANT[name]}")


class _Package(ModuleType):
    def __setattr__(self, name: str, value: object) -> None:
        if name in _MEANT and isinstance(value, ModuleType):  # Python puts folders here when they are imported
            value.__class__ = _Folder
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        from cda.errors import did_you_mean

        meant = f"; use {_MEANT[name]}" if name in _MEANT else did_you_mean(name, _MODULES).replace(" Did", "; did")
        raise AttributeError(f"module 'cda' has no attribute '{name}'{meant}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
