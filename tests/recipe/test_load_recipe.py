"""Recipes: what is shipped resolves, later settings win, and every mistake is reported at once."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cda.errors import RecipeError
from cda.files.shipped import recipes_folder
from cda.pipeline.plan import plan
from cda.recipe.load import load_recipe

BARE = "biases: jargon\nmodel: {name_or_path: some/model}\ndata: {pairs: some/data}\n"
RECIPES = sorted(path.stem for path in recipes_folder().glob("*.yaml"))
MODELS = sorted(path.stem for path in recipes_folder().glob("models/*.yaml"))
DATA = sorted(path.stem for path in recipes_folder().glob("data/*.yaml"))
Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a recipe and returns its path."""

    def write_recipe(text: str) -> str:
        path = tmp_path / "mine.yaml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write_recipe


def problems(reference: str, *overrides: str) -> tuple[str, ...]:
    with pytest.raises(RecipeError) as caught:
        load_recipe(reference, overrides)
    return caught.value.problems


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("model", MODELS)
def test_every_shipped_recipe_resolves_with_every_preset(model: str, data: str) -> None:
    assert {"length", "structure", "jargon", "sycophancy", "vagueness", "joint"} <= set(RECIPES)
    for name in RECIPES:
        if name == "faithful" and model != "llama-8b":  # it writes its model's settings out
            assert f"model={model}: made for" in "".join(problems("faithful", f"model={model}"))
            continue
        loaded = load_recipe(name, [f"model={model}", f"data={data}", "llm.model=some-llm"])
        assert loaded.recipe.name == name
        assert (loaded.recipe.model.preset, loaded.recipe.data.preset) == (model, data)
        assert [bias.name for bias in loaded.biases] == [Path(name).stem for name in loaded.recipe.biases]
        # Presets exist to set these; the schema's own learning rate is TRL's.
        assert {"learning_rate", "num_train_epochs"} <= set(loaded.recipe.train)
        assert isinstance(loaded.recipe.train["learning_rate"], float)


@pytest.mark.parametrize(
    ("name", "counterfactuals", "supplementary"),
    [("length", 1000, 0), ("structure", 750, 250), ("jargon", 750, 250), ("vagueness", 1000, 0), ("sycophancy", 500, 0),
     ("joint", 500, 0)],
)  # fmt: skip
def test_the_paper_s_numbers_of_pairs(name: str, counterfactuals: int, supplementary: int) -> None:
    """By the command that the recipe's own comment gives."""
    comment = (recipes_folder() / f"{name}.yaml").read_text(encoding="utf-8")
    (words,) = re.findall(rf"train\.py recipes/{name}\.yaml (model=llama-8b .*)", comment)
    recipe = load_recipe(name, words.split()).recipe
    assert [each.kind for each in recipe.objectives] == ["pairs"] and not recipe.synthesize.anchors
    for bias in recipe.biases:
        assert (recipe.n_pairs("counterfactuals", bias), recipe.n_pairs("supplementary", bias)) == (
            counterfactuals,
            supplementary,
        )


def test_a_number_for_one_of_several_biases_goes_before_joint() -> None:
    loaded = load_recipe("joint", ["data=paper", "synthesize.counterfactuals.length=100"])
    counts = {bias.name: loaded.recipe.n_pairs("counterfactuals", bias.name) for bias in loaded.biases}
    assert counts == {"length": 100, "jargon": 500, "vagueness": 500}


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (["synthesize.counterfactuals={jargon: 5}"], ["length", "vagueness"]),
        (["synthesize.counterfactuals={jargon: 5, joint: 7}"], []),
        (
            [
                "biases=[length]",
                "objectives=[pairs]",
                "synthesize.anchors=0",
                "synthesize.counterfactuals={jargon: 5, joint: 7}",
            ],
            ["length"],
        ),
    ],
)
def test_a_mapping_that_lacks_a_bias_is_refused(words: list[str], missing: list[str]) -> None:
    if not missing:
        load_recipe("joint", words)
        return
    for name, problem in zip(missing, problems("joint", *words), strict=True):
        assert f"has no number for '{name}'; add synthesize.counterfactuals.{name}=" in problem


def test_later_wins_defaults_model_preset_data_preset_recipe_command_line(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "data").mkdir()
    # Each setting is set by every layer from its own upwards.
    (tmp_path / "models" / "m.yaml").write_text(
        "model: {name_or_path: by-model}\nlora: {r: 1, alpha: 1, dropout: 0.1}\nscore: {batch_tokens: 1}\n", "utf-8"
    )
    (tmp_path / "data" / "d.yaml").write_text(
        "data: {pairs: by-data}\nlora: {alpha: 2, dropout: 0.2}\nscore: {batch_tokens: 2}\n", "utf-8"
    )
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("biases: jargon\nmodel: m\ndata: d\nlora: {dropout: 0.3}\nscore: {batch_tokens: 3}\n", "utf-8")
    found = load_recipe(str(recipe), ["score.batch_tokens=4"]).recipe
    assert found.lora.target_modules is None  # default
    assert found.lora.r == 1
    assert found.lora.alpha == 2
    assert found.lora.dropout == 0.3
    assert found.score.batch_tokens == 4
    assert (found.model.name_or_path, found.data.pairs) == ("by-model", "by-data")


ONE_MISTAKE = [
    (["modle=3"], "modle: unknown key. Did you mean 'model'?"),
    (["max_contrast=3"], "max_contrast: unknown key. Did you mean 'data.max_contrasts' or 'audit.max_contrasts'?"),
    (["precision=fp32"], "precision: unknown key. Did you mean 'model.precision'?"),
    (["model=llama-8"], "model: preset 'llama-8' is unknown. Did you mean 'llama-8b'? Known: embedded, "),
    (["biases=jargn"], "biases: bias 'jargn' is unknown. Did you mean 'jargon'?"),
    (["biases=[jargon,jargon]"], "biases: the same bias is listed twice"),
    (["lora.r=many"], "lora.r: input should be a valid integer, unable to parse string as an integer, found 'many'"),
    (["seed=-1"], "seed: input should be greater than or equal to 0, found -1"),
    (
        ["model.precision=4bit"],
        "model.precision: input should be '8bit', 'bf16', 'fp32', 'auto' or '8bit_on_gpu', found '4bit'",
    ),
    (["data.columns.promt=x"], "data.columns: unknown column promt; ours are prompt, chosen, rejected"),
    (
        ["audit.attribute={above: 1, low: 0, high: 2}"],
        "audit.attribute: above together with low and high: give one of above, ",
    ),
    (["audit.attribute={low: 3, high: 3}"], "audit.attribute: low=3 is not below high=3"),
    (["audit.attribute={having: list, lacking: list}"], "audit.attribute: 'list' cannot be both having and lacking"),
    (["label.by=llm"], "label.by is llm, but llm.model is not set"),
    (["seed"], "seed: an override has the form section.key=value"),
    (["lora..r=3"], "lora..r=3: an override has the form section.key=value"),
    (["data.split=["], "data.split=[:1:2: not valid YAML"),
    (["lora={r: 1, r: 2}"], "key 'r' is given twice"),
    (["synthesize.counterfactuals={jargon: -1}"], "synthesize.counterfactuals.jargon: input should be"),
    (
        ["synthesize.counterfactuals={jargn: 5, jargon: 5}"],
        "counterfactuals.jargn: no such bias here. Did you mean 'jargon'?",
    ),
    (["llm.api_key=sk-secret"], "llm.api_key: unknown key"),
]


@pytest.mark.parametrize(("overrides", "message"), ONE_MISTAKE, ids=[words[0] for words, _ in ONE_MISTAKE])
def test_each_mistake_is_named(write: Write, overrides: list[str], message: str) -> None:
    (found,) = problems(write(BARE), *overrides)
    assert message in found and "constrained" not in found and "sk-secret" not in found


def test_all_mistakes_of_file_and_command_line_are_listed_at_once(write: Write) -> None:
    path = write(BARE + "lora: {r: 0, alhpa: 1}\ntrain: {learning_rat: 1}\n")
    found = problems(path, "seed=-1", "data=papr", "foo", "biases=[jargn, lenght]", "modle=1")
    expected = [
        "lora.r",
        "lora.alhpa",
        "train.learning_rat",
        ": seed:",
        "'papr'",
        "foo",
        "'jargn'",
        "'lenght'",
        "modle",
    ]
    for part in expected:
        assert sum(part in line for line in found) == 1, part
    assert len(found) == len(expected)


def test_what_a_recipe_must_say(write: Write) -> None:
    found = problems(write(""))
    assert [line.split(": ", 1)[1] for line in found] == [
        f"{key}: missing; it has no default" for key in ("biases", "model", "data")
    ]
    (found,) = problems(write(BARE + "1: 2\n"))
    assert "1: keys are words" in found


def test_a_preset_made_for_one_model_is_not_taken_for_another() -> None:
    loaded = load_recipe("jargon", ["model.name_or_path=my/model", "train.weight_decay=0.1"])
    assert loaded.recipe.train == {"weight_decay": 0.1}
    assert (loaded.recipe.lora.target_modules, loaded.recipe.model.preset) == (None, None)
    (note,) = loaded.notes
    assert note.startswith(
        "the preset model=embedded is made for embedded, not for my/model: its settings are left out"
    )
    assert "lora.dropout=0.05 (0 there), LoRA's layers are chosen for the model" in note
    assert "train.learning_rate=2e-05 (0.0005 there)" in note and "weight_decay" not in note
    assert f"note        {note}" in plan(loaded)
    assert load_recipe("jargon").notes == load_recipe("jargon", ["model.name_or_path=embedded"]).notes == ()


def test_the_advice_on_the_embedded_model_s_settings_can_be_followed() -> None:
    asked = ["model=embedded", "model.name_or_path=my/model"]
    with pytest.raises(RecipeError, match=r"leave it out, or add model\.preset=null"):
        load_recipe("jargon", asked)
    left_out = load_recipe("jargon", ["model.name_or_path=my/model"]).recipe
    for words in ([*asked, "model.preset=null"], ["model=null", "model.name_or_path=my/model"]):
        assert load_recipe("jargon", words).recipe == left_out


def test_a_preset_next_to_another_model_gives_sizes_and_no_names_of_layers() -> None:
    loaded = load_recipe("jargon", ["model=llama-8b", "model.name_or_path=my/model"])
    assert loaded.recipe.train["per_device_train_batch_size"] == 8
    assert loaded.recipe.lora.target_modules is None
    (note,) = loaded.notes
    assert (
        "as asked: model.precision=8bit_on_gpu, train.per_device_train_batch_size=8. LoRA's layers are chosen" in note
    )
    asked = load_recipe("jargon", ["model=llama-8b", "model.name_or_path=my/model", "lora.target_modules=[c_attn]"])
    assert asked.recipe.lora.target_modules == ["c_attn"]


def test_a_mistake_is_said_of_the_place_that_made_it(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("biases: jargon\nmodel: embedded\ndata: embedded\nlora: {r: many, alpha: 1}\ntrain: {seeds: x}\n")
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(file), ["lora.alpha=none", "train.seeds=y"], {"audit": {"rate": "z"}}, where="cda.train")
    places = {problem.split(": ")[1]: problem.split(": ")[0] for problem in caught.value.problems}
    assert places == {
        "lora.r": str(file),
        "lora.alpha": "cda.train",
        "train.seeds": "cda.train",
        "audit.rate": "cda.train",
    }
    with pytest.raises(RecipeError, match=r"^command line: lora\.r: .* found 'x'$"):
        load_recipe("jargon", ["lora.r=x"])
    # A section that the file does not have.
    with pytest.raises(RecipeError, match=r"^command line: trian: unknown key"):
        load_recipe("jargon", ["trian.learning_rate=1"])


def test_a_setting_that_is_null_is_given(write: Write) -> None:
    """`null` takes every eligible pair, and is no reason to say that a preset's number is kept."""
    said = [
        note for note in load_recipe("jargon", ["data.pairs=mine.jsonl"]).notes if "numbers of pairs are kept" in note
    ]
    assert len(said) == 1
    for override in ("synthesize.counterfactuals=null", "synthesize.counterfactuals=5"):
        loaded = load_recipe("jargon", ["data.pairs=mine.jsonl", override])
        assert not [note for note in loaded.notes if "numbers of pairs are kept" in note]
    path = write(
        "biases: jargon\nmodel: embedded\ndata: {preset: embedded, pairs: mine.jsonl}\nsynthesize: {counterfactuals: null}\n"
    )
    assert not [note for note in load_recipe(path).notes if "numbers of pairs are kept" in note]
