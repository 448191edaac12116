"""Claim: the package is small, plain and typed: it meets the limits of its size, names, docstrings and types.

Measures this checkout and, for comparison, an earlier one (--before), the installed trl and, if it is installed, inspect_ai. The words of
a page are those that Chromium shows in the report of the first command, `cda train jargon`, whose run in runs/jargon is reused.

    python -m evals.reliability.house [--before FOLDER]            (half a minute; 2 minutes more for the first run of the training)
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from evals.shared import ROOT, Check, finish

_TELLS = {
    "opens with What, Whether, Of, Who or How": re.compile(r"^(What|Whether|Of|Who|How)\b"),
    "beside": re.compile(r"\bbeside\b", re.IGNORECASE),
    "where there is": re.compile(r"\bwhere there (is|are)\b", re.IGNORECASE),
}
_GENERIC = {"main", "run", "stage", "app", "logger"}


def sources(folder: Path) -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py"))}


def n_lines(texts: Iterable[str]) -> int:
    return sum(text.count("\n") for text in texts)


def measures(package: Path) -> dict[str, float]:
    """Size, names, docstrings and types of a package."""
    files = sources(package)
    trees = {path: ast.parse(text) for path, text in files.items()}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = [(node.end_lineno or node.lineno) - node.lineno + 1 for node in functions]
    sizes = [text.count("\n") for path, text in files.items() if path.name != "__init__.py"]
    total = n_lines(files.values())
    any_lines = sum(
        1
        for text in files.values()
        for line in text.splitlines()
        if re.search(r"\bAny\b", line) and not re.match(r"\s*(from|import)\b", line)
    )
    bound = [node.target for node in nodes if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension)]
    ones = sum(1 for target in bound for name in ast.walk(target) if isinstance(name, ast.Name) and name.id == "one")
    return {
        "lines": total,
        "files": len(files),
        "longest file": max(sizes),
        "median file": median(sizes),
        "median function": median(lengths),
        "90% of functions have at most": sorted(lengths)[len(lengths) * 9 // 10],
        "lines with Any per 1,000": round(1000 * any_lines / total, 1),
        "public names with several definitions": len(repeated_names(trees)),
        "modules with one importer in the same folder": single_importers(package, trees),
        "loops over `one`, %": round(100 * ones / max(1, len(bound)), 1),
        **docstring_tells(trees.values()),
    }


def repeated_names(trees: dict[Path, ast.Module]) -> dict[str, int]:
    """Public classes and functions of several modules, and private classes, with the same name."""
    names: Counter[str] = Counter()
    for path, tree in trees.items():
        if "cli" in path.parts or "api" in path.parts:
            continue  # a command and a function of the API have the name of the job
        for node in tree.body:
            is_class = isinstance(node, ast.ClassDef)
            if is_class or (isinstance(node, ast.FunctionDef) and not node.name.startswith("_")):
                names[node.name] += 1  # type: ignore[union-attr]
    return {name: n for name, n in names.items() if n > 1 and name not in _GENERIC}


def single_importers(package: Path, trees: dict[Path, ast.Module]) -> int:
    """Modules that one other module imports, which lies in the same folder."""
    modules = {".".join(path.relative_to(package.parent).with_suffix("").parts): path for path in trees}
    importers: dict[str, set[str]] = defaultdict(set)
    for module, path in modules.items():
        for node in ast.walk(trees[path]):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                    if name in modules:
                        importers[name].add(module)
    return sum(
        len(by) == 1 and next(iter(by)).rpartition(".")[0] == name.rpartition(".")[0] for name, by in importers.items()
    )


def docstring_tells(trees: Iterable[ast.Module]) -> dict[str, float]:
    """Signs of translated English, per 10,000 words of docstrings."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    texts = [ast.get_docstring(node) or "" for tree in trees for node in ast.walk(tree) if isinstance(node, kinds)]
    words = sum(len(text.split()) for text in texts)
    sentences = [sentence for text in texts for sentence in re.split(r"(?<=[.!?:])\s+|\n\s*\n", text)]
    counts = {name: sum(len(tell.findall(sentence)) for sentence in sentences) for name, tell in _TELLS.items()}
    return {
        "docstring words": words,
        **{f"{name}, per 10,000 words": round(1e4 * n / words, 1) for name, n in counts.items()},
    }


def hand_lists(package: Path) -> int:
    """Functions and module-level values that name three measures of an audit or more, except the table of measures itself."""
    from cda.numbers.measures import MEASURES

    names = {name for key, measure in MEASURES.items() for name in (key, measure.title, *measure.shown_as.values())}
    found = 0
    for path, text in sources(package).items():
        for node in ast.parse(text).body if path.parent.name != "numbers" else ():
            for part in node.body if isinstance(node, ast.ClassDef) else [node]:
                words = {
                    each.value
                    for each in ast.walk(part)
                    if isinstance(each, ast.Constant) and isinstance(each.value, str)
                }
                words |= {str(each.arg) for each in ast.walk(part) if isinstance(each, ast.keyword)}
                found += len(words & names) > 2
    return found


def forms_of_contrast(package: Path) -> int:
    """Classes between a file of contrasts and an audit's page that hold contrasts, or the two sides of one; settings are none."""
    found = 0
    for path, text in sources(package).items():
        if path.relative_to(package).parts[0] not in ("records.py", "data", "scorers", "auditing", "results", "report"):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                fields = [part for part in node.body if isinstance(part, ast.AnnAssign)]
                names = {ast.unparse(part.target) for part in fields}
                held = any(re.search(r"\bContrast\b", ast.unparse(part.annotation)) for part in fields)
                found += held or {"perturbed", "base"} <= names
    return found


def files_of_examples(tree: Path) -> dict[str, int]:
    """Source files, that each example of a change in the history took; empty without one."""
    log = ["git", "-C", str(tree), "log", "--grep", "^[^R].*, as an example$", "--format=%h %s"]
    listed = subprocess.run(log, capture_output=True, text=True, check=False).stdout.splitlines()
    found = {}
    for commit, _, subject in (line.partition(" ") for line in listed if "Revert" not in line):
        show = ["git", "-C", str(tree), "show", "--format=", "--name-only", commit, "--", "cda"]
        found[f"files of: {subject.removesuffix(', as an example')}"] = len(
            subprocess.run(show, capture_output=True, text=True, check=False).stdout.split()
        )
    return found


def page_words() -> dict[str, float]:
    """Words of a default training's report in Chromium: as it opens, and with everything folded open."""
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-m", "cda", "train", "jargon"]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL, check=True)
    browser = os.environ.get("CDA_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        page = launched.new_page(viewport={"width": 1280, "height": 900})
        page.goto((ROOT / "runs/jargon/report/report.html").as_uri())

        def n_words(selector: str) -> int:
            return sum(len(text.split()) for text in page.locator(selector).all_inner_texts())

        visible = n_words("body")
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        found = {
            "words of a training's page, visible": visible,
            "words of a training's page, open": n_words("body"),
            "of which in table cells": n_words("td, th"),
            "of which in figures": sum(len(text.split()) for text in page.locator("svg text").all_text_contents()),
            "of which in texts of examples": n_words(".example .text"),
        }
        launched.close()
    return found


def of_checkout(tree: Path) -> dict[str, float]:
    own = measures(tree / "cda")
    own["test lines"] = n_lines(sources(tree / "tests").values())
    own["places where measures are listed by hand"] = hand_lists(tree / "cda")
    own["test lines per line"] = round(own["test lines"] / own["lines"], 2)
    goldens = (file for file in (tree / "tests/golden/data").rglob("*") if file.is_file())
    own["golden lines"] = n_lines(file.read_text(encoding="utf-8") for file in goldens)
    own["api + cli lines"] = n_lines(sources(tree / "cda/api").values()) + n_lines(sources(tree / "cda/cli").values())
    own["presentation lines"] = sum(
        n_lines([text]) for path, text in sources(tree / "cda").items() if _shows(path, text)
    )
    own["forms of a contrast"] = forms_of_contrast(tree / "cda")
    own |= files_of_examples(tree)
    own["result classes"] = sum(len(_CLASS.findall(text)) for text in sources(tree / "cda/results").values())
    return own


_CLASS = re.compile(r"^class ", re.MULTILINE)


def _shows(path: Path, text: str) -> bool:
    """True for modules that draw pages, tables and figures: those of `report`, and those that make a table or a figure of it."""
    return path.parent.name == "report" or bool(
        re.search(r"^from cda\.report\.(?:page|plots|tables|document) import", text, re.M)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--before", type=Path, help="an earlier checkout, measured next to this one")
    before = parser.parse_args().before
    own = of_checkout(ROOT) | page_words()
    compared = {"cda": own} | ({"before": of_checkout(before)} if before else {})
    for name in ("trl", "inspect_ai"):
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            compared[name] = measures(Path(next(iter(spec.submodule_search_locations))))
    for measure in own:
        row = "".join(f"{compared[name].get(measure, ''):>12}" for name in compared)
        print(f"{measure:55}{row}")
    limits = {
        "lines": 42_000, "files": 170, "longest file": 700, "lines with Any per 1,000": 5, "loops over `one`, %": 5,
        "public names with several definitions": 0, "test lines": 36_000, "golden lines": 15_000, "api + cli lines": 1_800,
        "presentation lines": 6_000, "result classes": 120, "forms of a contrast": 7, "places where measures are listed by hand": 1,
        "words of a training's page, visible": 1_000, "words of a training's page, open": 3_000,
    }  # fmt: skip
    checks = [
        Check(f"{name}: at most {limit:,}", f"{own[name]:,}", own[name] <= limit) for name, limit in limits.items()
    ]
    return finish("house", str(__doc__).splitlines()[0].removeprefix("Claim: "), checks, compared)


if __name__ == "__main__":
    sys.exit(main())
