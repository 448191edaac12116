"""The commands that look something up: names that come with the package, settings, the version, and completion of both."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from cda import __version__
from cda.cli import complete
from cda.cli.app import LOOK_UP, Json, app
from cda.cli.output import running
from cda.errors import RecipeError, did_you_mean
from cda.files.shipped import FOLDERS, shipped
from cda.launch import say

_NO_SPACE = "    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=:] ]] && compopt -o nospace\n"
SHELLS = ("bash", "zsh", "fish")


@app.command(name="list", rich_help_panel=LOOK_UP)
def list_(
    kind: Annotated[
        str | None,
        Argument(help="biases, recipes, models (presets) or prompts. Default: the names of all.", autocompletion=complete.kinds),
    ] = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """List the biases, recipes, model presets or prompts that come with the package, each with its file."""
    with running(as_json) as output:
        if kind is None and not as_json:
            say(
                "\n".join(
                    f"{one:{max(map(len, FOLDERS))}}  {', '.join(name for name, *_ in shipped(one))}" for one in FOLDERS
                )
            )
            say("`cda list KIND` describes each, with its file")
            return
        if kind is None:
            raise RecipeError([f"--json: name a kind: {', '.join(FOLDERS)}"])
        if kind not in FOLDERS:
            raise RecipeError(
                [f"{kind}: nothing of this kind.{did_you_mean(kind, FOLDERS)} Known: {', '.join(FOLDERS)}"]
            )
        found = list(shipped(kind))
        if not as_json:
            width = max(len(name) for name, _, _ in found)
            say("\n".join(f"{name:{width}}  {sentence}\n{'':{width}}  {file}" for name, sentence, file in found))
            return
        from cda.results.commands import Name, Names

        names = tuple(Name(name=name, description=sentence, file=file) for name, sentence, file in found)
        output.show(Names(kind=kind, names=names))


@app.command(rich_help_panel=LOOK_UP)
def config(
    key: Annotated[
        str | None,
        Argument(help="A setting (train.learning_rate) or a section (audit). Default: all sections.",
                 autocompletion=complete.setting_names),
    ] = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Explain a setting of a recipe: its type, default, allowed values and meaning, and the recipes and presets that set it."""
    with running(as_json) as output:
        from cda.recipe.explain import explained, explained_text

        found = explained(key or "")
        output.show(found, explained_text(found))


@app.command(rich_help_panel=LOOK_UP)
def completion(
    shell: Annotated[str, Argument(help="bash, zsh or fish.", autocompletion=lambda: list(SHELLS))],
) -> None:
    """Print a script that completes commands, options, names and settings: eval "$(cda completion bash)"."""
    with running():
        from typer._completion_shared import get_completion_script

        if shell not in SHELLS:
            raise RecipeError(
                [f"{shell}: no completion for this shell.{did_you_mean(shell, SHELLS)} Known: {', '.join(SHELLS)}"]
            )
        script = get_completion_script(prog_name="cda", complete_var="_CDA_COMPLETE", shell=shell)
        if shell == "bash":  # no space behind `audit.quality=` or `judge:`, which have to go on
            script = script.replace("    return 0\n", f"{_NO_SPACE}    return 0\n")
        print(script)


@app.command(rich_help_panel=LOOK_UP)
def version(as_json: Json = False) -> None:
    """Print the version."""
    with running(as_json) as output:
        if not as_json:
            print(__version__)
            return
        from cda.results.commands import Version

        output.show(Version(version=__version__))
