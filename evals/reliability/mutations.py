"""Mutation testing of statistics and money: code is changed at random places, and its own tests must fail.

Mutations are mutmut's (3.8, which needs an older pytest: `pip install mutmut 'pytest<9.1'` in an environment of its own). It changes
operators, numbers, arguments, keywords and defaults within functions; decorated functions, class bodies and constants of modules it
leaves alone. Changes of the wording of a message or a docstring alone are not drawn. `python -m evals.reliability.mutations AREA SECONDS`
runs mutants of one area for about so long and keeps how they ended, so that it can be called again until all that were drawn are through;
without an area the result is written.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cda.stats.estimators import wilson
from evals.shared import ROOT, Check, finish

CLAIM = "a mistake in the statistics, the verdicts or the money makes a test of that room fail."
SEED, PER_AREA, AT_ONCE = 20_261_123, 20, 10
LEAST, LEAST_LOW = 0.85, 0.80
KEPT = Path(tempfile.gettempdir()) / "cda-mutations"
"""Trees with all mutants, and how those that were run ended; a change of the code or of its tests starts anew."""
AREAS: dict[str, tuple[str, tuple[str, ...]]] = {
    "stats": ("cda/stats/*.py", ("tests/stats",)),
    "verdict": (
        "cda/auditing/verdict_sentences.py",
        tuple(f"tests/auditing/report/test_{name}.py" for name in ("verdict", "dosed", "glance")),
    ),
    "money": (
        "cda/llm/money.py",
        ("tests/llm/test_llm_money.py", "tests/llm/test_purse.py", "tests/llm/test_llm_batch.py"),
    ),
}
FIRST_RUN = {"stats": (103, 120), "verdict": (67, 80), "money": (65, 72)}
"""Seen of those drawn before tests were written for what was not seen: the fairer share. It is the sum over all draws;
each area is drawn anew when its code has changed."""
_KINDS = {0: "survived", 1: "killed", 3: "killed", 5: "not_covered", 33: "not_covered"}
"""mutmut's exit status of the tests; any other is a run that was ended because it took too long, or crashed."""


def main(area: str | None, seconds: float) -> int:
    if area is not None:
        found = _run(area, seconds)
        (KEPT / f"{area}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(area, {kind: len(found[kind]) for kind in ("killed", "timed_out", "survived", "not_covered", "open")})
        return 0
    areas = {name: json.loads((KEPT / f"{name}.json").read_text(encoding="utf-8")) for name in AREAS}
    if any(one["open"] for one in areas.values()):
        print("not all that were drawn were run:", {name: len(one["open"]) for name, one in areas.items()})
        return 1
    said = json.loads((ROOT / "evals" / "reliability" / "mutations_survivors.json").read_text(encoding="utf-8"))
    counts = {name: (len(one["killed"]) + len(one["timed_out"]), one["drawn"]) for name, one in areas.items()}
    killed, drawn = (sum(column) for column in zip(*counts.values(), strict=True))
    low, high = wilson(killed, drawn)
    survivors = [
        {**one, "area": name, "why": said.get(_key(one["change"]))}
        for name, found in areas.items()
        for one in (*found["survived"], *found["not_covered"])
    ]
    open_ones = [one["mutant"] for one in survivors if not one["why"]]
    checks = [
        Check(f"{LEAST:.0%} of the changes are seen, {LEAST_LOW:.0%} at the lower bound",
              f"{killed / drawn:.0%} [{low:.0%}, {high:.0%}], {killed} of {drawn}", killed / drawn >= LEAST and low >= LEAST_LOW),
        Check("every change that is not seen is read, and is harmless or the same program",
              f"{len(survivors) - len(open_ones)} of {len(survivors)}" + "".join(f"; {one}" for one in open_ones), not open_ones),
    ]  # fmt: skip
    shares = {
        name: {"killed": k, "drawn": n, "interval": wilson(k, n), "of": areas[name]["of"]}
        for name, (k, n) in counts.items()
    }
    first = tuple(sum(column) for column in zip(*FIRST_RUN.values(), strict=True))
    before = {"by_area": FIRST_RUN, "killed": first[0], "drawn": first[1], "interval": wilson(*first)}
    numbers = {"seed": SEED, "by_area": shares, "before tests for the survivors": before, "survivors": survivors}
    return finish("mutations", CLAIM, checks, numbers)


def _run(area: str, seconds: float) -> dict[str, Any]:
    """Run the area's tests on the mutants drawn, some at a time until the seconds are over, and say how each ended."""
    mutated, tests = AREAS[area]
    folder, until = KEPT / f"{area}-{_fingerprint(mutated, tests)}", time.monotonic() + seconds
    if not (folder / "mutants").exists():
        _copy(folder, mutated, tests)
        _mutmut(folder, "no such mutant")  # writes all of them, runs none
    changes = _changes(folder, mutated)
    drawn = random.Random(SEED).sample(sorted(changes), len(changes))[:PER_AREA]
    ended = _ended(folder)
    while (left := [name for name in drawn if ended.get(name) is None]) and time.monotonic() < until:
        _mutmut(folder, *left[:AT_ONCE])
        ended = _ended(folder)
        if all(ended.get(name) is None for name in left[:AT_ONCE]):
            raise SystemExit(f"mutmut ran none of {left[:AT_ONCE]}; see {folder / 'log'}")
    result: dict[str, Any] = {"of": len(changes), "drawn": len(drawn)}
    kinds: dict[str, list[Any]] = {"killed": [], "timed_out": [], "survived": [], "not_covered": [], "open": []}
    for name in drawn:
        code = ended.get(name)
        kind = _KINDS.get(code, "timed_out") if code is not None else "open"
        shown = kind in ("survived", "not_covered")
        kinds[kind].append({"mutant": name, "change": changes[name]} if shown else name)
    return result | kinds


def _fingerprint(mutated: str, tests: Sequence[str]) -> str:
    """Of the code and of its tests."""
    paths = [
        *ROOT.glob(mutated),
        *(path for one in tests for path in ([ROOT / one] if one.endswith(".py") else (ROOT / one).rglob("*.py"))),
    ]
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _copy(folder: Path, mutated: str, tests: Sequence[str]) -> None:
    """The tree with mutmut's settings."""
    for name in ("cda", "tests", "recipes", "evals"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    # mutmut forks by itself and must see which test runs which function.
    settings = re.sub(r'addopts = ".*"', 'addopts = "-n 0 -p no:cacheprovider"', settings)
    settings += (
        f'\n[tool.mutmut]\nsource_paths = ["cda/"]\nonly_mutate = ["{mutated}"]\n'
        f'also_copy = ["tests/", "recipes/", "evals/"]\npytest_add_cli_args_test_selection = {json.dumps(tests)}\n'
    )
    (folder / "pyproject.toml").write_text(settings, encoding="utf-8")


def _ended(folder: Path) -> dict[str, int | None]:
    """Exit status of the tests on each mutant; None for those not run."""
    found: dict[str, int | None] = {}
    for meta in (folder / "mutants").rglob("*.py.meta"):
        found |= json.loads(meta.read_text(encoding="utf-8"))["exit_code_by_key"]
    return found


def _mutmut(folder: Path, *names: str) -> None:
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", "2", *names]
    environment = os.environ | {"PYTHONPATH": str(folder / "mutants"), "OMP_NUM_THREADS": "1"}
    with (folder / "log").open("ab") as log:
        subprocess.run(command, cwd=folder, env=environment, stdout=log, stderr=log, check=False)


def _changes(folder: Path, mutated: str) -> dict[str, list[str]]:
    """Mutant to the lines that it changes, `- …` and `+ …`; those of wording alone are left out."""
    found = {}
    for path in sorted((folder / "mutants").glob(mutated)):
        module = path.relative_to(folder / "mutants").with_suffix("").as_posix().replace("/", ".")
        functions = {
            node.name: node
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and "__mutmut_" in node.name
        }
        for name, node in functions.items():
            stem, _, number = name.rpartition("__mutmut_")
            if number == "orig":
                continue
            original = functions[f"{stem}__mutmut_orig"]
            if _without_words(node) == _without_words(original):
                continue
            before, after = (ast.unparse(one).splitlines()[1:] for one in (original, node))
            lines = [f"- {a.strip()}\n+ {b.strip()}" for a, b in zip(before, after, strict=False) if a != b]
            found[f"{module}.{name}"] = "\n".join(lines[:2]).splitlines() or ["(a line more or less)"]
    return found


def _without_words(node: ast.AST) -> str:
    """The function with every string that mutmut may have changed as the same string, and without its name."""
    text = re.sub(r"Constant\(value=(['\"]).*?\1\)", "Constant()", ast.dump(node))
    return re.sub(r"name='[^']*__mutmut_\w+'", "", text, count=1)


def _key(change: list[str]) -> str:
    return " => ".join(line[2:] for line in change[:2])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None, float(sys.argv[2]) if len(sys.argv) > 2 else 500.0))
