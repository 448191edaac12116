"""Hooks of mkdocs: documents that lie next to the code become pages, and functions are shown with their declared options.

`mkdocs build` writes the site; links between documents are the same in the repository and on the site.
"""

from __future__ import annotations

import inspect
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "THIRD_PARTY_NOTICES.md": "notices.md",
    "cda/studies/README.md": "how-to/studies.md",
    "recipes/README.md": "reference/recipes.md",
    "cda/biases/README.md": "reference/bias-files.md",
    "cda/prompts/README.md": "reference/prompt-files.md",
    "cda/report/README.md": "explanation/report.md",
    "cda/discovery/README.md": "explanation/discovery.md",
    "evals/README.md": "explanation/evals.md",
    "cda/embedded/texts/README.md": "explanation/embedded-texts.md",
    "cda/embedded/model/README.md": "explanation/embedded-model.md",
}
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#]*)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, uri in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, uri, content=re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page with links as they hold on the site; a link to a file that is no page becomes its name."""
    uri = page.file.src_uri
    source = next((path for path, target in PAGES.items() if target == uri), f"docs/{uri}")
    pages = {**PAGES, **{f"docs/{file.src_uri}": file.src_uri for file in files if file.src_uri not in PAGES.values()}}

    def on_site(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        if target not in pages:
            return f'](# "{target}")' if (ROOT / target).exists() else match[0]
        return f"]({posixpath.relpath(pages[target], posixpath.dirname(uri) or '.')}{match[2] or ''})"

    return _LINK.sub(on_site, markdown)


class DeclaredOptions(griffe.Extension):
    """Functions of `@declared` options are shown with the parameters and sentences that `inspect.signature` and `help()` give;
    griffe reads the source, which has them in their declaration."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        if not any(str(decorator.value).startswith("declared(") for decorator in func.decorators):
            return
        made = griffe.dynamic_import(func.path, [ROOT, *sys.path])
        options = [
            griffe.Parameter(
                each.name, annotation=str(each.annotation), kind=griffe.ParameterKind[each.kind.name.lower()],
                default=None if each.default is each.empty else repr(each.default),
            )
            for each in inspect.signature(made).parameters.values()
        ]  # fmt: skip
        for shown in (func, *(func.overloads or ())):
            own = [each for each in shown.parameters if each.kind is not griffe.ParameterKind.var_keyword]
            shown.parameters = griffe.Parameters(*own, *options[len(own) :])
        if func.docstring is not None:
            func.docstring.value = inspect.getdoc(made) or ""
