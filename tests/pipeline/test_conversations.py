"""Conversations that a model's chat template refuses are found before anything is labelled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cda.errors import CdaError
from cda.pipeline.plan import check, check_conversations
from cda.recipe.load import load_recipe

if TYPE_CHECKING:
    from conftest import ModelMaker

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
