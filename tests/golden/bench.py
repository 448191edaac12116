"""Runs the recorded commands in one folder, against local servers that answer by rule."""

from __future__ import annotations

import re
import shlex
import shutil
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import discover_server
import pytest
from cases import CASES, Case
from inputs import SCORERS, number, write_inputs
from recorded import Scrubber, kept_file, printed
from replies import reply
from simulated import filled, planted, write_table
from typer.testing import CliRunner

from cda.cli import app
from cda.embedded.model import embedded_model_folder

ROOT = Path(__file__).parent.parent.parent
PARTICIPANTS = ("p01", "p02", "p03", "p04")
# Width of what is printed; no colours; nobody's own key, cache or terminal.
ENVIRONMENT = {
    "COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1", "TERM": "dumb", "OPENAI_API_KEY": "unused",
    "VLLM_API_KEY": "unused",
}  # fmt: skip


class Bench:
    """A folder with the inputs, the servers, and the output of every case that has run."""

    def __init__(self, folder: Path, serve: Callable[..., str]) -> None:
        self.folder = folder
        self._found: dict[str, dict[str, Any]] = {}
        self.said: dict[str, list[str]] = {}
        """By case, what each of its commands printed, as it was."""
        scorers: dict[str, Any] = {}
        exec(SCORERS, scorers)
        self._reward: Callable[..., list[float]] = scorers["reward"]
        self._clerk = discover_server.Clerk()
        self._address = serve(self._answer).removesuffix("/v1")
        write_inputs(folder)
        discover_server.write_inputs(folder)

    def output(self, case: Case) -> dict[str, Any]:
        """Name to text or JSON of everything that is kept of a case; cases that it needs run first."""
        if case.name not in self._found:
            for name in case.after:
                self.output(named(name))
            self._found[case.name] = self._run(case)
        return self._found[case.name]

    def _run(self, case: Case) -> dict[str, Any]:
        if case.name == "study-import":
            write_table(
                self.folder / "filled.csv", filled(self.folder / "study-export" / "run", PARTICIPANTS[:3], planted)
            )
        address = self._address
        # A folder of its own for each run: scores and answers lie beside a run for all of its neighbours.
        (self.folder / case.name).mkdir()
        if case.copy:
            shutil.copytree(self.folder / case.copy, self.folder / case.name / "run")
        places = {"out": f"{case.name}/run", "llm": f"{address}/v1", "served": address}
        scrub = Scrubber({
            str(self.folder): "<folder>", address: "<server>", address.removeprefix("http://"): "<server>",
            str(ROOT): "<repository>", str(embedded_model_folder()): "<embedded>",
        })  # fmt: skip
        with self._at_home():
            self.said[case.name] = [self._command(command, places, case.fails) for command in case.commands]
        said = (f"$ cda {command}\n{text}" for command, text in zip(case.commands, self.said[case.name], strict=True))
        found: dict[str, Any] = {"printed.txt": printed("\n".join(said), scrub)}
        out = self.folder / case.name
        files = sorted(path for path in out.rglob("*") if path.is_file())
        names = sorted(scrub(path.relative_to(out).as_posix()) for path in files)
        found["files.txt"] = "".join(f"{name}\n" for name in names)
        for path in files:
            name = path.relative_to(out).as_posix()
            kept = kept_file(path, scrub) if any(fnmatch(name, pattern) for pattern in case.kept) else None
            if kept is not None:
                found[f"{scrub(name)}{kept[0]}"] = kept[1]
        return found

    @contextmanager
    def _at_home(self) -> Iterator[None]:
        """The folder and environment of every command."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in ENVIRONMENT.items():
                patch.setenv(name, value)
            patch.chdir(self.folder)
            yield

    def tried(self, words: Sequence[str]) -> Any:
        """The result of a command as it stands."""
        with self._at_home():
            return CliRunner().invoke(app, [*words])

    def _command(self, command: str, places: dict[str, str], fails: bool) -> str:
        words = [re.sub(r"\{(out|llm|served)\}", lambda match: places[match[1]], word) for word in shlex.split(command)]
        result = CliRunner().invoke(app, words)
        crashed = result.exception is not None and not isinstance(result.exception, SystemExit)
        if crashed or (result.exit_code != 0) != fails:
            trace = "".join(traceback.format_exception(result.exception)) if crashed else ""
            raise AssertionError(f"cda {command}: status {result.exit_code}\n{result.output}\n{trace}")
        return result.output if fails else result.stdout

    def _answer(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if "model" not in body:
            return 200, served(self._reward, body)
        return verdict(body) if body["model"] in ("judge", "other", "third") else self._clerk(body)


def named(name: str) -> Case:
    """The case of this name."""
    (case,) = (case for case in CASES if case.name == name)
    return case


def served(reward: Callable[..., list[float]], body: dict[str, Any]) -> dict[str, Any]:
    """A served reward model's answer: the reward of `scorers.py` for the last message."""
    (value,) = reward([""], [body["messages"][-1]["content"]])
    usage = {"prompt_tokens": 7, "total_tokens": 7}
    return {"id": "c", "object": "list", "model": "rm", "data": [{"index": 0, "probs": [value]}], "usage": usage}


def verdict(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """A judge's answer: judges with tastes of their own, who now and then take the first or say nothing; and on each
    criterion that they are asked about."""
    shown = re.findall(r"<<<ANSWER \d>>>\n(.*?)\n<<<END>>>", body["messages"][-1]["content"], re.DOTALL)
    first, second = (number(body["model"], text) % 97 + 30 * ("ly " in text) for text in shown[:2])
    drawn = number(body["model"], *shown) % 11
    by = re.findall(r"'(Verdict on [^:]*): X'", body["messages"][0]["content"])
    apart = [f"{line}: {(1, 2, 'tie')[number(body['model'], line, *shown) % 3]}\n" for line in by]
    own = f"Reasons.\n{''.join(apart)}Verdict: {1 if first > second or drawn < 2 else 2}"
    text = own if drawn < 10 else "I cannot choose."
    return reply(text, body["model"], (100, 20))
