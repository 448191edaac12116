"""Every number with a unit in a document is made from, or checked against, what it is of: a result file, a constant, shipped files."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import statistics
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import model_memory
import pytest
import yaml
from command_reference import files as command_files
from documented_commands import READMES
from documented_numbers import ROOT, agree, leaves, numbers_in, numbers_of
from measured_times import result
from number_sources import EVERYWHERE, SOURCES
from result_reference import files as result_files

MADE = {path for path in (*command_files(), *result_files()) if path.suffix == ".md"}
"""Pages that are made as a whole from the declarations of options, settings and results, whose sentences are checked as those are."""
DOCUMENTS = list(dict.fromkeys([*READMES, ROOT / "evals" / "README.md"]))
TEXTS = ROOT / "cda" / "embedded" / "texts"


def made(function: Callable[[], Any]) -> Callable[[], Any]:
    COMPUTED[function.__name__] = function
    return function


COMPUTED: dict[str, Callable[[], Any]] = {}


@cache
def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (TEXTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


@made
def texts() -> list[float]:
    added, removed, triples = 5 * len(rows("audit")), len(rows("shown")), len(rows("triples"))
    turns = [sum(row["bias"].startswith(bias) for row in rows("second_turn")) for bias in ("sycophancy", "length")]
    sizes = [len(rows(name)) for name in ("audit", "shown", "quality", "train", "triples")]
    sampled = [len(rows("samples")), sum(len(row["answers"]) for row in rows("samples"))]
    return [*sizes, *sampled, added, removed, added + removed, removed / 5, triples / 5, *turns]


@made
def second_turns() -> int:
    return len(rows("second_turn"))


@made
def joint_mix() -> list[float]:
    """Before and after of each bias and of accuracy, in %, and the fall or rise."""
    own = {name: one for name, one in result("joint_embedded")["numbers"].items() if isinstance(one, dict)}
    sides = [(one["before"]["value"], one["after"]["value"]) for one in own.values()]
    return [100 * value for both in sides for value in both]


@made
def shows() -> list[float]:
    sides = [sum(bool(row[f"{side}_shows"]) for row in rows("train")) for side in ("sound", "flawed")]
    return [len(rows("train")), *sides, *(n / len(rows("train")) for n in sides)]


@made
def responses() -> list[float]:
    n = 4 * (len(rows("responses")) + len(rows("narrow")))
    return [400, n, 400 / n]  # 400: by hand; what the reader found nothing to change in


@made
def reversed_shares() -> list[float]:
    return list(import_module("evals.reliability.build_embedded").REVERSED.values())


@made
def tutorial() -> list[str]:
    return list(result("shipped_runs")["numbers"]["runs"]["audit embedded --bias jargon --bias length"]["printed"])


@made
def judge_calls() -> list[int]:
    from cda.auditing.audit import planned_calls
    from cda.recipe.load import load_model_audit

    counts = []
    for settings in ({}, {"audit": {"triples": None}}):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OPENAI_API_KEY", "none is asked")
            steps = planned_calls(load_model_audit("judge:gpt-4o", settings))
        counts.append(sum(planned.calls for _, planned in steps))
    return counts


@made
def embedded_preset() -> Any:
    return yaml.safe_load((ROOT / "recipes" / "data" / "embedded.yaml").read_text(encoding="utf-8"))


@made
def drift_limits() -> list[float]:
    limits = import_module("cda.stats.drift").DEFAULT_LIMITS.values()
    return [value for limit in limits for value in (limit.ratio, limit.difference) if value is not None]


@made
def batch_pauses() -> list[float]:
    first, longest = _pauses()
    return [first, longest / 60]


def _pauses() -> tuple[float, float]:
    from cda.llm.batch import BatchLLM

    own = {each.name: each.default for each in dataclasses.fields(BatchLLM)}
    return own["first_pause_s"], own["longest_pause_s"]


@made
def batch_waits() -> list[float]:
    """Minutes of the looks at a batch that is not known any more, whole ones."""
    from cda.llm.batch import LOOKS

    (pause, longest), waited = _pauses(), 0.0
    for _ in range(LOOKS["gone"] - 1):
        waited, pause = waited + pause, min(1.5 * pause, longest)
    return [waited // 60]


@made
def list_pauses() -> list[float]:
    from cda.llm.batch import LIST_PAUSES_S

    return [len(LIST_PAUSES_S), sum(LIST_PAUSES_S)]


@made
def llm_attempts() -> int:
    from cda.recipe.schema import LlmSection

    return 1 + int(LlmSection.model_fields["retries"].default)


@made
def label_limit() -> float:
    from cda.recipe.schema import LabelSection

    return float(LabelSection.model_fields["max_unparsed"].default)


@made
def label_minutes() -> list[float]:
    from cda.recipe.schema import LlmSection

    return [10_000, round(10_000 * 5 / int(LlmSection.model_fields["concurrency"].default) / 60, -1)]


@made
def check_reward() -> Any:
    module = import_module("cda.resources.reward_function")
    return [*module._CLOSE, *module._ROUNDED]


@made
def gpt4o_price() -> Any:
    return yaml.safe_load((ROOT / "cda/llm/prices.yaml").read_text(encoding="utf-8"))["hosts"]["api.openai.com"][
        "gpt-4o"
    ]


def _dollars() -> list[list[float]]:
    text = (
        (ROOT / "recipes" / "README.md")
        .read_text(encoding="utf-8")
        .partition("| recipe with `data=paper` |")[2]
        .partition("\n\n")[0]
    )
    return [[number for number, _ in numbers_of(row.replace("$", " "))] for row in text.splitlines()[2:]]


@made
def dollars() -> list[float]:
    """By the table of estimates: all that one bias costs, and all pairs of the paper."""
    own = _dollars()
    return [*(row[-1] for row in own), round(80 * own[0][0] + own[0][1], -1)]


@made
def rules_undone() -> list[float]:
    """Additions by rules that rules take out again: the least of four biases, and of vagueness; whole percents that they reach."""
    found = {check["threshold"].partition(":")[0]: check["found"] for check in result("flip_rates")["checks"][:5]}
    shares = {bias: float(re.findall(r"([\d.]+)% \[", words)[0]) / 100 for bias, words in found.items()}
    vagueness = shares.pop("vagueness")
    return [math.floor(100 * min(shares.values())), math.floor(100 * vagueness)]


@made
def differ_alone() -> list[float]:
    return [numbers_of(check["found"].replace("%", " "))[0][0] for check in result("embedded_texts")["checks"][:10]]


@made
def noise() -> list[float]:
    """Quality before and after noise, and how often the interval of skew alone called the model less biased."""
    found = {
        key: own
        for key, own in result("verdict_words")["numbers"].items()
        if re.match(r"noise to quality (72|68|63)%, c", key)
    }
    levels = [float(key[17:19]) for key in found]
    called = [float(own["words by the rule before"]["less biased"].partition("%")[0]) for own in found.values()]
    return [77, max(levels), min(levels), min(called) + 0.01, max(called)]


@made
def tilt_missing() -> list[float]:
    """Percents of the shift and of the KL that are missing with 4 responses; 8 and 1, if the others miss 1% at most."""
    found = result("policy_tilt")["numbers"]["shift at the strongest supported β"]
    few = found.pop("4")
    assert all(1 - own[key] <= 0.01 for own in found.values() for key in ("jackknifed", "kl"))
    return [100 * (1 - few["jackknifed"]), 100 * (1 - few["kl"]), 4, 1, 8]


@made
def padding() -> list[float]:
    sets = result("bench_training")["numbers"]["sets"].values()
    return [100 * own[kind]["padding_share"] for own in sets for kind in ("cda", "TRL")]


def _real(way: str = "ours") -> Any:
    return result("real_debias")["numbers"]["ways"][way]


@made
def real_skews() -> list[float]:
    """Least and most skew of the base models, and people's, by bias."""
    found, people = [], result("real_debias")["numbers"]["people"]
    for bias in ("jargon", "structure", "length"):
        skews = _real()["biases"][bias]["skew_on_voted"]["by_seed"]["before"]
        found += [min(skews), max(skews), people[bias]["value"]]
    return found


def _real_after(*ways: str) -> list[float]:
    """Mean gap of taught biases after each way, and the change of structure's."""
    found = []
    for way in ways:
        found += [
            _real(way)["taught_gap"]["after"]["value"],
            _real(way)["biases"]["structure"]["gap"]["change"]["value"],
        ]
    return found


@made
def real_dosed() -> list[float]:
    return _real_after("ours, dose")


@made
def real_paper() -> list[float]:
    return _real_after("paper")


@made
def real_others() -> list[float]:
    return _real_after("paper", "mixing")


@made
def real_removals() -> list[float]:
    return _real_after("direction", "features")


@made
def real_by_set() -> list[float]:
    return [_real()["by_set"][name]["change"]["value"] for name in ("AlpacaEval test", "LLMBar natural")]


@made
def real_gaps() -> list[float]:
    """Mean gap of the taught biases, and that of structure, before and after; change of accuracy."""
    own, structure = _real()["taught_gap"], _real()["biases"]["structure"]["gap"]
    sides = [found[side]["value"] for found in (own, structure) for side in ("before", "after")]
    return [*sides, _real()["accuracy"]["change"]["value"]]


@made
def voted_contrasts() -> float:
    """Of a bias in the release, to ten."""
    return round(statistics.mean(own["n"] for own in result("dose_release")["numbers"]["biases"].values()), -1)


@made
def training_speeds() -> list[float]:
    sets = result("bench_training")["numbers"]["sets"].values()
    return [own[peer]["seconds"] / own["cda"]["seconds"] for own in sets for peer in ("TRL", "TRL, no checkpointing")]


def _gpu(name: str) -> Any:
    return result("bench_training_gpu")["numbers"]["models"][f"Llama-3.1-8B {name}"]


@made
def eight_bit_product() -> list[float]:
    own = _gpu("8bit")
    return [own["chunks, freed"]["tokens_per_s"], own["chunks"]["tokens_per_s"] / own["chunks, freed"]["tokens_per_s"]]


@made
def gpu_precisions() -> float:
    kind = "as in recipes/models, in chunks"
    return float(_gpu("bf16")[kind]["tokens_per_s"] / _gpu("8bit")[kind]["tokens_per_s"])


@made
def gpu_compiled() -> list[float]:
    kind, speeds = "as in recipes/models, in chunks", result("bench_scoring_gpu")["numbers"]["bf16"]["tokens_a_second"]
    trained = _gpu("bf16")[f"{kind}, compiled"]["tokens_per_s"] / _gpu("bf16")[kind]["tokens_per_s"]
    return [trained, speeds["ours, compiled"] / speeds["ours"]]


@made
def whole_job() -> float:
    own = result("bench_training_gpu")["numbers"]["whole job"]["bf16 (auto)"]
    return float(round(own["tokens"] / (own["training_seconds"] - own["of_which_validation"]), -1))


@made
def scored_texts() -> list[float]:
    own = result("bench_scoring_gpu")["numbers"]
    return [own["texts"], own["bf16"]["tokens"] / own["texts"]]


@made
def paper_length() -> list[int]:
    presets = [
        yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROOT / "recipes" / "models").glob("*.yaml")
    ]
    return [preset["model"]["max_length_tokens"] for preset in presets]


@made
def memory_said() -> list[float]:
    """Of two presets: measured on a GPU, and the sum of the estimates that the table has."""
    gemma = result("bench_training_gpu")["numbers"]["earlier"]["models"]["Gemma-2-27B 8bit"]
    measured = [each["as in recipes/models"]["peak_gigabytes"] for each in (_gpu("8bit"), gemma)]
    table = [[number for number, _ in numbers_of(row)] for row in model_memory.memory_table().splitlines()[2:]]
    llama, large = (next(row for row in table if row[0] == first) for first in (8.0, 28.0))
    return [*measured, sum(llama[:3]), large[0] + large[1] + large[3]]


@made
def memory_room() -> float:
    return model_memory.ROOM - 1


def pool(source: str) -> Iterator[float]:
    """All numbers of a source; AssertionError if it is none."""
    for part in source.split(" + "):
        kind, _, name = part.partition(" ")
        if kind == "result":
            file, _, keys = name.partition(":")
            found = result(file)
            for key in _keys(found, keys):
                found = found[int(key) if isinstance(found, list) else key]
            yield from leaves(found)
        elif kind == "code":
            module, _, constant = name.partition(":")
            first, *attributes = constant.split(".")
            found = getattr(import_module(module), first)
            for attribute in attributes:
                found = found[attribute] if isinstance(found, dict) else getattr(found, attribute)
            yield from leaves(numbers_of(str(found.__doc__)) if callable(found) else found)
        elif kind == "made":
            yield from leaves(COMPUTED[name]())
        else:
            assert part.startswith("stated: ") and len(part) > 16, source


def _keys(found: Any, keys: str) -> Iterator[str]:
    """Keys of a dotted place; a key may have dots itself."""
    while keys:
        names = map(str, range(len(found))) if isinstance(found, list) else found
        key = max((name for name in names if keys == name or keys.startswith(f"{name}.")), key=len)
        yield key
        found, keys = found[int(key) if isinstance(found, list) else key], keys[len(key) + 1 :]


def spans(document: Path) -> Iterator[tuple[int, int, str, str]]:
    """Start, end, words and source of what is declared of a document; a text that is not there is an error."""
    name, text = document.relative_to(ROOT).as_posix(), document.read_text(encoding="utf-8")
    for words, source in SOURCES.get(name, {}).items():
        places = [match.span() for match in re.finditer(r"\s+".join(map(re.escape, words.split())), text)]
        assert places, f"{name}: number_sources.py speaks of {words!r}, which is not there"
        yield from ((start, end, words, source) for start, end in places)
    for words, source in EVERYWHERE.items():
        yield from ((*match.span(), words, source) for match in re.finditer(rf"(?<![\d.]){re.escape(words)}", text))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_number_with_a_unit_has_a_source(document: Path) -> None:
    if document in MADE:
        return
    known = list(spans(document))
    text = document.read_text(encoding="utf-8")
    bare = [
        f"{document.relative_to(ROOT)}:{text[:start].count(chr(10)) + 1}: {' '.join(text[max(0, start - 40) : end + 20].split())}"
        for start, end, _ in numbers_in(document)
        if not any(first <= start and end <= last + 1 for first, last, *_ in known)
    ]
    assert bare == [], "declare in number_sources.py what says so"


@pytest.mark.parametrize(
    ("name", "words", "source"),
    [
        (name, words, source)
        for name, own in {**SOURCES, "everywhere": EVERYWHERE}.items()
        for words, source in own.items()
    ],
)
def test_the_source_has_the_number(name: str, words: str, source: str) -> None:
    if all(part.startswith("stated: ") for part in source.split(" + ")):
        return
    numbers = numbers_of(words.replace("%", " ").replace("$", " "))
    if "stated: " in source:
        numbers = [each for each in numbers if each[0] not in (8.0, 97.5)]
    found = list(pool(source))
    assert numbers and [number for number, digits in numbers if not agree(number, digits, found)] == [], (
        f"{name}: {words!r}: {source}"
    )


def test_facts_without_a_source_stay_few() -> None:
    stated = [words for own in SOURCES.values() for words, source in own.items() if source.startswith("stated: ")]
    declared = sum(map(len, SOURCES.values()))
    assert 0 < len(stated) <= 45 and declared > 100, (len(stated), declared)


def test_a_wrong_number_is_seen() -> None:
    found = list(pool("result dose_release:checks"))
    assert agree(27.7, 1, found) and not agree(27.9, 1, found)
    assert statistics.median(pool("code cda.stats.verdict:MIN_PROMPTS")) == 30


def test_sources_are_narrow_enough_to_see_a_change() -> None:
    """A number that is one or two off in its last digit is in hardly any source."""
    blind = []
    for name, own in SOURCES.items():
        for words, source in own.items():
            if "stated: " in source:
                continue
            found = list(pool(source))
            for number, digits in numbers_of(words.replace("%", " ").replace("$", " ")):
                near = [number + step * 10.0**-digits for step in (-2, -1, 1, 2)]
                if all(agree(each, digits, found) for each in near if each > 0):
                    blind.append(f"{name}: {words!r}: {number:g} in {source}")
    assert blind == []
