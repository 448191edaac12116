"""Times, memory and printed screens in the documents, from the result files of evals that measured them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from model_memory import table

RESULTS = Path(__file__).parent.parent / "evals" / "results"


def result(name: str) -> Any:
    """What an eval wrote."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def minutes(seconds: float) -> str:
    """
    >>> minutes(62.2), minutes(387.6), minutes(25.2), minutes(960)
    ('1.0 minutes', '6.5 minutes', '25 s', '16 minutes')
    """
    return f"{seconds:.0f} s" if seconds < 60 else f"{seconds / 60:.{0 if seconds >= 600 else 1}f} minutes"


def gigabytes(megabytes: float) -> str:
    return f"{megabytes / 1000:.1f} GB"


def printed(command: str) -> str:
    """What a shipped command prints at the end, as a block."""
    return "```\n" + "\n".join(result("shipped_runs")["numbers"]["runs"][command]["printed"]) + "\n```\n"


_SHIPPED = {
    "jargon": "336 pairs, 200 counterfactuals, audit",
    **dict.fromkeys(("structure", "length", "sycophancy", "vagueness", "worth-noting"), ""),
    "joint": "916 pairs of three biases",
}


def cpu_times() -> str:
    """Time and memory of whole commands and of parts on two CPU cores, each with its result file and date."""
    rows: list[tuple[str, str, str, str]] = []

    def add(what: str, time: str, memory: str, name: str, date: str | None = None) -> None:
        rows.append((what, time, memory, f"{date or result(name)['date']}, `evals/results/{name}.json`"))

    runs, precision = result("shipped_runs")["numbers"]["runs"], result("shipped_runs")["numbers"]["precision"]
    for name, of in _SHIPPED.items():
        run = runs[f"train {name}"]
        what = f"`{name}.yaml` as shipped{f' ({of})' if of else ''}, in {precision}"
        add(what, minutes(run["seconds"]), gigabytes(run["megabytes"]), "shipped_runs")
    audit = runs["audit embedded --bias jargon --bias length"]
    add("`cda audit embedded`, two biases", minutes(audit["seconds"]), gigabytes(audit["megabytes"]), "shipped_runs")
    arena = result("arena_jargon")
    add(
        "`jargon.yaml` on 748 chat pairs, audited on people's votes, in 8-bit on busy cores",
        minutes(arena["seconds"]),
        "",
        "arena_jargon",
    )
    training = result("bench_training")["numbers"]
    for name, what in (
        ("length triples", f"training, {training['pairs']} pairs a batch of the length triples"),
        ("Arena pairs", "the same on Arena pairs"),
    ):
        ours = training["sets"][name]["cda"]
        add(
            what,
            f"{ours['tokens_per_s']:,.0f} tokens a second",
            gigabytes(ours["peak_megabytes"]),
            "bench_training",
            training["speeds_of"],
        )
    add(
        "`cda discover embedded`",
        minutes(result("discover_loop")["numbers"]["seconds_to_discover"]),
        "",
        "discover_loop",
    )
    large = result("bench_large")["numbers"]["sizes"]
    pairs, texts = large["pairs"]["80000"], large["texts"]["200000"]
    add(
        "80,000 pairs cleaned, labelled and rewritten by rules, on one core",
        minutes(pairs["seconds"]),
        gigabytes(pairs["bytes"] / 1e6),
        "bench_large",
    )
    add(
        "200,000 texts through the scoring engine on one core, without the model's own time",
        minutes(texts["seconds"]),
        gigabytes(texts["bytes"] / 1e6),
        "bench_large",
    )
    llm = result("bench_llm")["numbers"]
    add(
        f"{llm['n_requests']:,} LLM calls of 1 s, {llm['n_slots']} at once",
        f"{llm['at_1_s']['seconds']:.0f} s, where {llm['at_1_s']['ideal_seconds']:.0f} s are ideal",
        f"{llm['at_1_s']['megabytes']:.0f} MB",
        "bench_llm",
    )
    return table("what | time | memory | measured", rows)


def growth() -> str:
    """Time and memory of each command at three sizes, its slope, and what data sets of millions of rows would take."""
    rows, far = [], []
    for name, found in result("growth")["numbers"].items():
        command, _, of = name.partition(" by ")
        sizes = [f"{int(n):,}: {at['seconds']:.0f} s, {at['megabytes']:.0f} MB" for n, at in found["sizes"].items()]
        rows.append((f"`cda {command}`", of, *sizes, f"{found['slope']:.2f}"))
        if "far" in found:
            far.append(f"`cda {command}` {found['far']['seconds'] / 60:.0f} minutes of one core")
    words = f"Extrapolated to {result('growth')['numbers']['data by pairs']['far']['rows'] // 10**6} million pairs: {' and '.join(far)}."
    return (
        table("command | input | small | twice | four times | slope", rows)
        + f"\n{words} (`evals/results/growth.json`)\n"
    )


def _cell(found: Any) -> str:
    if not found or "failed" in found:
        return "" if not found else str(found["failed"])
    return f"{found['tokens_per_s']:,.0f} in {found['peak_gigabytes']:.0f} GB"


def _gpu_models() -> dict[str, Any]:
    numbers = result("bench_training_gpu")["numbers"]
    gemma = {name: found for name, found in numbers["earlier"]["models"].items() if name.startswith("Gemma")}
    return {**numbers["models"], **gemma}


def gpu_training() -> str:
    """Training steps of two shapes on one GPU: real tokens a second, and peak memory."""
    rows = []
    for name, found in sorted(
        _gpu_models().items(), key=lambda each: (each[0].startswith("Gemma"), each[0].endswith("8bit"))
    ):
        shape, precision = name.rsplit(" ", 1)
        chunks = _cell(found.get("chunks")) + (", by bitsandbytes' own product" if name == "Gemma-2-27B 8bit" else "")
        rows.append((shape, precision.replace("8bit", "8-bit"), _cell(found.get("longest")), _cell(found.get("longest, freed")), chunks,
                     _cell(found.get("chunks, compiled"))))  # fmt: skip
    head = "shape | precision | padded to the longest text, as TRL does | the same, 8-bit inputs released | in chunks, as `cda` does | the same, `model.compile=true`"
    return table(head, rows)


def gpu_presets() -> str:
    """Training steps with the batch of each preset on one GPU."""
    found, named = (
        _gpu_models(),
        {"Llama-3.1-8B": "`llama-8b` (8 pairs)", "Gemma-2-27B": "`gemma-27b` (2 pairs, checkpointed)"},
    )
    kinds = ("as in recipes/models", "as in recipes/models, in chunks")
    rows = [
        (words, *(_cell(found[f"{shape} {precision}"].get(kind)) for kind in kinds for precision in ("8bit", "bf16")),
         _cell(found[f"{shape} bf16"].get("as in recipes/models, in chunks, compiled")))
        for shape, words in named.items()
    ]  # fmt: skip
    return table("preset | 8-bit | bf16 | 8-bit, in chunks | bf16, in chunks | the same, compiled", rows)


def gpu_scoring() -> str:
    """Scoring with the 8B shape on one GPU, against three peers."""
    numbers, rows = result("bench_scoring_gpu")["numbers"], []
    for words, precision, ours in (
        ("bf16, `model.compile=true`", "bf16", "ours, compiled"),
        ("bf16", "bf16", "ours"),
        ("8-bit", "8bit", "ours"),
    ):
        own, best = numbers[precision], numbers[precision]["best_of_ours"] == ours
        speeds = own["tokens_a_second"]
        ratio = own["speed_up"] if best else {peer: speeds[ours] / speeds[peer] for peer in speeds}
        peers = (f"{ratio[peer]:.2f} times as fast" for peer in ("one at a time", "pipeline", "CrossEncoder"))
        rows.append((words, f"{speeds[ours]:,.0f}", *peers))
    return table(
        "precision | tokens a second | one text at a time | Transformers pipeline | sentence-transformers' `CrossEncoder`",
        rows,
    )
