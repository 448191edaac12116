"""What a result says beside its numbers: what each stage took, how its groups were made, how often its prompts were tested on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from cda.data.messages import prompt_of
from cda.discovery.asked_groups import LLMGrouper
from cda.discovery.protocols import Grouper
from cda.files.jsonl import read_json, read_jsonl, write_json
from cda.records import prompt_id
from cda.results.facts import StageRun
from cda.run import RunFolder
from cda.stages.discover_confirm import ROWS

STAGES = ("material", "search", "validate", "confirm", "pairs")
_SUPERSEDED = "superseded"


def finished_stages(folder: RunFolder, searched: bool, validated: bool, tested: bool) -> dict[str, StageRun]:
    """The stages that took part, with their time and what they asked of LLMs.

    Args:
        folder: The run.
        searched: Whether the result is that of a search; a folder may hold stages of an earlier command.
        validated: Whether anybody entered the validation.
        tested: Whether anybody entered the test.
    """
    took_part = dict(zip(STAGES, (True, searched, validated, tested, tested), strict=True))
    records = {name: folder.record(name) for name in STAGES if took_part[name]}
    return {
        name: StageRun(seconds=one.seconds, finished=one.finished, llm=one.counts.get("llm", {}))
        for name, one in records.items()
        if one
    }


def grouping_repairs(folder: RunFolder) -> dict[str, int]:
    """What had to be mended in an LLM's groups, over all generations, by reason."""
    found: Counter[str] = Counter()
    for path in sorted(folder.stage("search").glob("repairs-*.json")):
        found.update(read_json(path))
    return dict(sorted(found.items()))


def earlier_tests(folder: RunFolder) -> int:
    """Confirmations of this folder that tested on any of the prompts of the present one, with other settings or candidates.

    What was made twice alike, such as after a file was damaged, is one test.
    """
    now, prompts = folder.record("confirm"), _prompts(folder.stage("confirm"))
    aside = RunFolder(folder.path / _SUPERSEDED)
    found = set()
    for path in aside.path.glob("confirm-[0-9]*"):
        made = aside.record(path.name).fingerprint
        if made not in (None, now.fingerprint) and prompts & _prompts(path):
            found.add(made)
    return len(found)


def save_repairs(grouper: Grouper, before: Mapping[str, int], index: int, folder: Path) -> Mapping[str, int]:
    """Write what had to be mended in the groups of a generation, and return all there was so far.

    Args:
        grouper: Who grouped; only an LLM's answers have to be mended.
        before: What this had returned for the generation before.
        index: Of the generation.
        folder: Of the search.
    """
    repairs = dict(grouper.repairs) if isinstance(grouper, LLMGrouper) else {}
    write_json(folder / f"repairs-{index}.json", dict(Counter(repairs) - Counter(before)))
    return repairs


def _prompts(confirmation: Path) -> set[str]:
    """Prompts on which something was measured."""
    path = confirmation / ROWS
    return {prompt_id(prompt_of(row["prompt"])) for row in read_jsonl(path)} if path.is_file() else set()
