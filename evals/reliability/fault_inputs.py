"""Wrong commands, recipes and data files, each with what a clean refusal has to name."""

from __future__ import annotations

from dataclasses import dataclass, field

PAIRS = '{"prompt": "a", "chosen": "b", "rejected": "c"}\n'
CONTRAST = '{"prompt": "p", "base": "a", "perturbed": "b", "preferred": "base"}\n'


@dataclass(frozen=True, slots=True)
class Wrong:
    """A command that has to be refused: its words, the files it finds in its folder, and words of the message."""

    words: tuple[str, ...]
    names: tuple[str, ...]
    files: dict[str, bytes] = field(default_factory=dict)


def _train(*words: str, names: tuple[str, ...], **files: str | bytes) -> Wrong:
    """A training with further words; files are named by their stem and kind, as `pairs_jsonl`."""
    return Wrong(("train", "jargon", *words), names, _files(files))


def _files(given: dict[str, str | bytes]) -> dict[str, bytes]:
    return {
        ".".join(name.rsplit("_", 1)): text.encode() if isinstance(text, str) else text for name, text in given.items()
    }


WRONG: tuple[Wrong, ...] = (
    # Commands and settings.
    Wrong(("trian", "jargon"), ("trian",)),
    Wrong(("train",), ("recipe",)),
    Wrong(("train", "jargn"), ("jargn", "jargon")),
    Wrong(("train", "no/such/recipe.yaml"), ("no/such/recipe.yaml",)),
    _train("train.learning_rte=1", names=("learning_rte",)),
    _train("train.learning_rate=fast", names=("learning_rate", "fast")),
    _train("train.num_train_epochs=-1", names=("num_train_epochs",)),
    _train("lora.r=0", names=("lora.r",)),
    _train("lora.target_modules=[nothing_like_it]", "data.max_pairs=20", names=("nothing_like_it",)),
    _train("model.precision=4bit", names=("model.precision", "4bit")),
    _train("model.max_length_tokens=many", names=("model.max_length_tokens", "many")),
    _train("data.validation_share=1.5", names=("data.validation_share",)),
    _train("biases=helpfulness", names=("helpfulness",)),
    _train("objectives=[unlearn]", names=("objectives",)),
    _train("label.by=llm", names=("llm.model",)),
    _train("novalue", names=("novalue",)),
    _train("model.name_or_path=./no_such_model", names=("./no_such_model",)),
    _train("run.folder=taken.txt", names=("taken.txt",), taken_txt="a file"),
    Wrong(("audit", "embedded", "--bias", "jargn"), ("jargn",)),
    Wrong(("merge", "no_such_run", "--out", "merged"), ("no_such_run",)),
    Wrong(("samples", "2"), ("2",)),
    Wrong(("quality", "embedded", "missing.jsonl"), ("missing.jsonl",)),
    Wrong(("compare", "no_run_a", "no_run_b"), ("no_run_a", "no_run_b")),
    # Recipes.
    Wrong(("train", "bad.yaml"), ("bad.yaml",), _files({"bad_yaml": "biases: [jargon\nmodel: embedded\n"})),
    Wrong(("train", "twice.yaml"), ("twice.yaml", "seed"), _files({"twice_yaml": "biases: jargon\nseed: 1\nseed: 2\n"})),
    Wrong(("train", "list.yaml"), ("list.yaml",), _files({"list_yaml": "- jargon\n"})),
    Wrong(("train", "latin.yaml"), ("latin.yaml", "UTF-8"), _files({"latin_yaml": b"biases: jarg\xf3n\n"})),
    # Data.
    _train("data.pairs=missing.jsonl", names=("missing.jsonl",)),
    _train("data.pairs=empty.jsonl", names=("empty.jsonl",), empty_jsonl=""),
    _train("data.pairs=cut.jsonl", names=("cut.jsonl:2",), cut_jsonl=PAIRS + PAIRS[:20]),
    _train("data.pairs=binary.jsonl", names=("binary.jsonl",), binary_jsonl=bytes(range(256))),
    _train("data.pairs=columns.jsonl", names=("columns.jsonl", "chosen"), columns_jsonl='{"question": "a", "good": "b"}\n'),
    _train("data.pairs=same.jsonl", names=("same.jsonl",), same_jsonl=3 * PAIRS.replace('"c"', '"b"')),
    _train("data.pairs=table.csv", names=("table.csv", "chosen"), table_csv="a,b\n1,2\n"),
    _train("data.pairs=fake.parquet", names=("fake.parquet",), fake_parquet="no parquet"),
    _train("audit.contrasts=c.jsonl", names=("c.jsonl", "perturbed"), c_jsonl='{"prompt": "p", "base": "a"}\n'),
    _train(
        "audit.contrasts=c.jsonl", names=("c.jsonl", "preference"), c_jsonl=CONTRAST.replace('"base"}', '"sideways"}')
    ),
    Wrong(
        ("dose", "scores:b.jsonl", "--against", "scores:a.jsonl", "--votes", "v.csv"),
        ("b.jsonl",),
        _files({"b_jsonl": '{"id": 1}\n', "a_jsonl": '{"id": 1}\n', "v_csv": "id,vote\n1,1\n"}),
    ),
)  # fmt: skip
