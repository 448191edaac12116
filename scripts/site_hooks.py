"""Hooks of mkdocs: documents that lie next to the code become pages, and reference pages are made from the code.

`mkdocs build` writes the site; links between documents are the same in the repository and on the site.
"""

from __future__ import annotations

import posixpath
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

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
    files.append(File.generated(config, "reference/settings.md", content="\n".join(settings_page())))
    files.append(File.generated(config, "reference/commands.md", content="\n".join(commands_page())))
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


def settings_page() -> Iterator[str]:
    """Every key of a recipe with its type and default."""
    from cda.recipe.schema import Recipe

    yield "# Recipe settings\n\nEvery key of a recipe. On the command line a key is `section.key=value`.\n"
    yield "| key | type | default | meaning |\n| --- | --- | --- | --- |"
    for cells in _settings(Recipe, ""):
        yield f"| {' | '.join(map(_escaped, cells))} |"


def _settings(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        section = _section(field.annotation)
        if section is not None:
            yield from _settings(section, f"{prefix}{name}.")
            continue
        given = field.default is not PydanticUndefined
        default = f"`{field.default!r}`" if given else "required" if field.is_required() else "empty"
        meaning = " ".join((field.description or "").split())
        yield f"`{prefix}{name}`", _type(field.annotation), default, meaning


def _section(annotation: object) -> type[BaseModel] | None:
    options = get_args(annotation) if get_origin(annotation) is types.UnionType else (annotation,)
    return next((kind for kind in options if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def _type(annotation: object) -> str:
    """A type as it is written in code, without modules and checks of the value."""
    if get_origin(annotation) is Annotated:
        return _type(get_args(annotation)[0])
    if get_origin(annotation) in (types.UnionType, Union):
        return " | ".join(map(_type, get_args(annotation)))
    if get_origin(annotation) is Literal:
        return " | ".join(map(repr, get_args(annotation)))
    name = getattr(annotation, "__name__", str(annotation)).replace("NoneType", "None")
    inner = ", ".join(map(_type, get_args(annotation)))
    return f"{name}[{inner}]" if inner else name


def commands_page() -> Iterator[str]:
    """Every command with its arguments and options, as `--help` says them."""
    from cda.cli import app

    yield "# Commands\n"
    yield from _commands(typer.main.get_command(app), "cda")


def _commands(command: Any, name: str) -> Iterator[str]:
    for word, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, f"{name} {word}")
    if hasattr(command, "commands"):
        return
    yield f"## {name}\n\n{command.help or ''}\n\n| argument or option | meaning |\n| --- | --- |"
    for parameter in command.params:
        names = ", ".join(parameter.opts) if parameter.param_type_name == "option" else parameter.name
        yield f"| `{names}` | {_escaped(getattr(parameter, 'help', None) or '')} |"
    yield ""


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
