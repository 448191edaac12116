"""Every kind of data file, made hostile: what comes back is a value or an error of ours, fit to be printed."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from made_audits import make_audit
from mutations import CONTROLS, MARKUP, as_json, broken, mutated

from cda.biases import builtin_names, load_bias
from cda.data.contrasts import clean_contrasts, load_votes
from cda.data.load import check_columns, load_rows
from cda.data.pairs import clean_pairs
from cda.data.quality_sets import load_quality_set
from cda.data.queries import clean_queries, why_not
from cda.data.sampled import load_outputs, load_sampled
from cda.data.scores import load_scores
from cda.data.triples import clean_triples
from cda.discovery.material import parse_items, why_unusable
from cda.discovery.proposals import mended, parse_attributes, parse_groups, usable
from cda.errors import CdaError, DataError, ModelError, RecipeError
from cda.files.jsonl import MAX_DEPTH, parse_json
from cda.files.yaml_file import parse_yaml
from cda.llm.limiter import retry_after_s
from cda.llm.outcome import Endpoint, of_content, of_status
from cda.llm.protocol import json_of
from cda.models.adapters import check_adapter
from cda.models.refusals import folder_problems
from cda.recipe.load import find_recipe, is_recipe, load_model_audit, load_recipe
from cda.records import count_reasons, user_prompt
from cda.report.page import word_changes
from cda.results.audit import AuditResult
from cda.results.base import load
from cda.rewriting.labels import parse_answers
from cda.rewriting.triples import parse_questions
from cda.run import RunFolder, Stage
from cda.scorers.dialects import endpoint_of
from cda.scorers.judge import parse_verdicts, verdict_code
from cda.scorers.served_client import reward_in, undone
from cda.training.dose import plain_config

FUZZ = settings(deadline=None, derandomize=True, max_examples=25)
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
BIASES = ["jargon", "length"]
ASKED = [{"role": "user", "content": "Why is it so?"}]


def _pairs(path: str) -> object:
    rows = load_rows(path)
    check_columns(rows, {"prompt": "prompt"}, path, "data.columns.")
    return clean_pairs(rows)


FILES: Mapping[str, tuple[Any, Callable[[str], object]]] = {
    "pairs": (
        [
            {"prompt": "Why?", "chosen": "because", "rejected": "no", "score_chosen": 1.0, "score_rejected": 2},
            {"prompt": ASKED, "chosen": [{"role": "assistant", "content": "a"}], "rejected": [{"role": "assistant", "content": "b"}]},
            {"chosen": "\n\nHuman: q\n\nAssistant: a", "rejected": "\n\nHuman: q\n\nAssistant: b", "winner": "tie"},
        ],
        _pairs,
    ),
    "contrasts": (
        [
            {"id": "1", "prompt": "q", "base": "a", "perturbed": "b", "preferred": "base", "votes": ["tie"], "bias": "jargon"},
            {"id": "2", "prompt": "q", "response_1": "a", "response_2": "b", "biased": "response_1", "bias": "length",
             "preferred": "response_1", "direction": "added"},
        ],
        lambda path: clean_contrasts(load_rows(path), BIASES, {}, path, votes={"1": ["tie"]}),
    ),
    "votes by row": ([{"id": "1", "vote": "base"}, {"id": "2", "vote": "tie"}], load_votes),
    "votes by item": ([{"id": "1", "votes": ["base"]}, {"id": "2", "votes": '["tie"]'}], load_votes),
    "votes by name": ({"1": ["base"], "2": "tie"}, load_votes),
    "triples": (
        [{"prompt": "q", "original": "a", "rewrite": "b", "rewrite_of_rewrite": "c", "has_attribute": True, "bias": "length"}],
        lambda path: clean_triples(load_rows(path), BIASES, {}, path),
    ),
    "sampled": (
        [{"prompt": "q", "responses": ["a", "b"], "quality": [1, 2.0]}, {"prompt": ASKED, "responses": '["a"]', "quality": "[1]"}],
        load_sampled,
    ),
    "outputs": ([{"prompt": "q", "response": "a", "quality": 1}, {"prompt": "q", "response": "b", "quality": "2"}], load_outputs),
    "scores": (
        [{"query": "q", "perturbed": "a", "base": "b", "perturbed_score": 1.0, "base_score": "2"},
         {"query": ASKED, "perturbed": "c", "base": "d", "perturbed_score": 1, "base_score": 0}],
        load_scores,
    ),
    "preferences": ([{"prompt": "q", "response_a": "a", "response_b": "b", "preference": -0.5}], load_scores),
    "queries": (
        [{"prompt": "Why is the sky blue in the morning?", "language": "en"}, {"conversation": ASKED}],
        lambda path: clean_queries(load_rows(path), path),
    ),
    "RewardBench": ([{"prompt": "q", "chosen": "a", "rejected": "b", "subset": "math-prm", "id": 1}], load_quality_set),
    "RewardBench 2": (
        [{"prompt": "q", "chosen": ["a", "c"], "rejected": ["b"], "subset": "Ties", "id": f"{kind}:1"} for kind in ("ref", "tied")],
        load_quality_set,
    ),
    "RM-Bench": ([{"prompt": "q", "chosen": ["a", "c", "d"], "rejected": ["b", "e", "f"], "domain": "chat"}], load_quality_set),
    "LLMBar": ([{"input": "q", "output_1": "a", "output_2": "b", "label": 1}], load_quality_set),
}  # fmt: skip


def ours_or_nothing(work: Callable[[], object]) -> None:
    """Runs it; only an error of ours may come out, and only one that can be printed."""
    try:
        work()
    except CdaError as error:
        assert not UNPRINTABLE.search(str(error)), ascii(str(error))
        assert len(str(error)) < 50_000


@pytest.mark.parametrize("kind", FILES)
@FUZZ
@given(seed=st.integers(0, 2**32))
def test_hostile_files_are_read_or_refused(kind: str, tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    valid, read = FILES[kind]
    rng = random.Random(seed)
    content = mutated(valid, rng, rng.randint(1, 3))
    folder = tmp_path_factory.getbasetemp()
    if isinstance(content, list) and rng.random() < 0.5:
        path, lines = folder / "rows.jsonl", b"\n".join(map(as_json, content))
        path.write_bytes(broken(lines, rng) if rng.random() < 0.3 else lines)
    else:
        path = folder / "rows.json"
        path.write_bytes(as_json(content, rng))
    ours_or_nothing(lambda: read(str(path)))


@pytest.mark.parametrize("kind", FILES)
def test_the_valid_file_is_read(kind: str, tmp_path: Path) -> None:
    """Or the fuzzing above would only ever see the first refusal."""
    valid, read = FILES[kind]
    path = tmp_path / "rows.json"
    path.write_bytes(as_json(valid))
    assert read(str(path))


@FUZZ
@given(seed=st.integers(0, 2**32))
def test_hostile_csv_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng = random.Random(seed)
    path = tmp_path_factory.getbasetemp() / "rows.csv"
    cells = [
        '"a ""b"" c"',
        '"two\nlines"',
        CONTROLS.encode("utf-8", "replace").decode(),
        "x" * 200_000,
        "=cmd|' /C calc'!A0",
        ",",
        '"',
        "é",
    ]
    rows = ["id,prompt,chosen,rejected,votes", *(",".join(rng.choices(cells, k=rng.randint(1, 6))) for _ in range(3))]
    content = "\n".join(rows).encode()
    path.write_bytes(broken(content, rng) if rng.random() < 0.5 else content)
    ours_or_nothing(lambda: clean_pairs(load_rows(str(path))))
    ours_or_nothing(lambda: load_votes(str(path)))


@settings(FUZZ, max_examples=12)
@given(seed=st.integers(0, 2**32))
def test_hostile_parquet_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    import pyarrow
    import pyarrow.parquet

    rng = random.Random(seed)
    path = tmp_path_factory.getbasetemp() / "rows.parquet"
    columns: list[pyarrow.Array] = [
        pyarrow.array([b"\xff\xfe", None]), pyarrow.array([b"\xff\xfe", b"a"]).view("string"), pyarrow.array([1.5, None]),
        pyarrow.array([2**62, -(2**62)]).view(pyarrow.timestamp("us")), pyarrow.array([["a"], None]), pyarrow.array(["a", "b"]),
        pyarrow.array([[{"role": "user", "content": "q"}], []]),
    ]  # fmt: skip
    names = ["prompt", "chosen", "rejected"]
    pyarrow.parquet.write_table(pyarrow.table([rng.choice(columns) for _ in names], names=names), path)
    if rng.random() < 0.4:
        whole = path.read_bytes()
        at = rng.randrange(len(whole))
        path.write_bytes(whole[:at] + b"\x00\xff" + whole[at + 2 :])
    ours_or_nothing(lambda: clean_pairs(load_rows(str(path))))


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        ("votes by row", '[{"id": "1", "vote": "%s"}]' % ("[" * 3000), "row 1 lacks a vote"),
        ("sampled", '[{"prompt": "q", "responses": ["a", "b"], "quality": [1, 1e5, 2]}, {"prompt": "q", "responses": "%s"}]' % ("[" * 3000),
         None),
        ("outputs", '[{"prompt": "q", "response": "a", "quality": 1%s}]' % ("0" * 400), None),
        ("scores", '[{"prompt": "q", "response": "a", "score": 1%s}]' % ("0" * 400), "give a number from"),
        ("RewardBench", '[{"prompt": "q", "chosen": "a", "rejected": "b", "subset": {"a": 1}}]', None),
        ("RewardBench 2", '[{"prompt": "q", "chosen": ["a"], "rejected": ["b"], "subset": ["Ties"], "num_correct": 1}]', None),
        ("RewardBench 2", '[{"prompt": "q", "chosen": ["a"], "rejected": ["b"], "subset": "Ties", "id": "ref:%s"}]' % ("9" * 5000),
         "neither ref:N nor tied:N"),
        ("pairs", "{" + '"a":{' * 150 + "}" * 151, "nested too deeply"),
    ],
)  # fmt: skip
def test_what_once_ended_in_a_traceback(kind: str, content: str, message: str | None, tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(content, "utf-8")
    read = FILES[kind][1]
    if message is None:
        read(str(path))
    else:
        with pytest.raises(DataError, match=message):
            read(str(path))


def test_depth_is_limited_and_what_is_flat_is_not() -> None:
    assert parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert len(parse_json(f"[{','.join(['[]'] * 1000)}]")) == 1000
    for depth in (MAX_DEPTH + 1, 900, 100_000):
        with pytest.raises(ValueError, match="nested too deeply"):
            parse_json("[" * depth + "]" * depth)


def test_many_different_reasons_are_counted_in_no_time() -> None:
    reasons = [f"of another bias ({number})" for number in range(20_000)]
    assert sum(count_reasons([*reasons, *reasons]).values()) == 40_000  # took the square of that


def test_a_query_of_any_length_is_looked_at_in_no_time() -> None:
    assert why_not("[a" * 500_000 + "?") == "longer than 5,000 characters"  # took hours
    assert why_not("a-" * 500_000 + "?") == "longer than 5,000 characters"


WHOLE = make_audit().model_dump()
FUZZ_30 = settings(deadline=None, derandomize=True, max_examples=30)
SCHEMA = {"type": "object", "properties": {"label": {"enum": ["yes", "no"]}}, "required": ["label"]}
ENDPOINT = Endpoint("server", "model", "NO_SUCH_KEY")
WAITS = (
    "1e999",
    "-1",
    "x",
    CONTROLS,
    "9" * 5000,
    "nan",
    "Wed, 21 Oct 2999 07:28:00 GMT",
    "Wed, 99 Oct 99999999 07:28:00 GMT",
)
ANSWERS: tuple[Any, ...] = (
    {"response_1": "yes", "response_2": "no"}, {"label": "yes"}, {"attributes": ["Uses lists"]}, {"groups": [[1, 3], [2]]},
     {"prompts": ["Why?"]}, {"questions": ["Why?"]},
    {"choices": [{"message": {"content": "x", "refusal": None}, "finish_reason": "stop", "logprobs": {"content": [
        {"top_logprobs": [{"token": "1", "logprob": -1.0}]}]}}], "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
    {"error": {"message": "m", "code": "c", "type": "t", "param": "p"}}, {"detail": [{"loc": ["a"], "msg": "m"}]},
    "Response 1: yes\nResponse 2: no", "- Uses lists\n- b", "1, 3\n2", "edit: 8/10\nfluency: 9", "Difference: uses x",
    "1. Why?\n2. How?", "Verdict: 1", '```json\n{"label": "yes"}\n```', "<think>x</think>Verdict: tie",
)  # fmt: skip
SERVER = Endpoint("http://x", "m", "NO_SUCH_KEY")
READERS: Mapping[str, Callable[[str], object]] = {
    "labels": lambda text: parse_answers(text, ["response_1", "response_2"]),
    "schema": lambda text: json_of(text, SCHEMA),
    "attributes": lambda text: usable(parse_attributes(text) or [], 5),
    "groups": lambda text: mended(parse_groups(text) or [], 5),
    "prompts": lambda text: [why_unusable(one) for one in (parse_items(text, "prompts") or ([], []))[0]],
    "questions": parse_questions,
    "verdict": parse_verdicts,
    "code": lambda text: verdict_code(user_prompt(text[:1000]), text[:1000], "b"),
    "completion": lambda text: of_content(text.encode("utf-8", "replace"), SERVER),
    "probabilities": lambda text: of_content(text.encode("utf-8", "replace"), SERVER, one_token=True),
}


def hostile_answer(rng: random.Random) -> str:
    """What a model might write in place of an answer."""
    valid = rng.choice(ANSWERS)
    content = (
        broken(valid.encode(), rng) if isinstance(valid, str) else as_json(mutated(valid, rng, rng.randint(0, 3)), rng)
    )
    text = content.decode("utf-8", "replace")
    text = f"```json\n{text}\n```" if rng.random() < 0.2 else text
    return f"{rng.choice(['', '', '<think>a</think> ', '<think>'])}{text}{rng.choice(['', '', CONTROLS, MARKUP, '}', '`' * 99])}"


@FUZZ_30
@given(seed=st.integers(0, 2**32))
def test_hostile_answers_are_read_or_are_none(seed: int) -> None:
    text = hostile_answer(random.Random(seed))
    for name, read in READERS.items():
        try:
            read(text)
        except Exception as error:  # the reader's name beside the text
            raise AssertionError(f"{name}: {text[:200]!r}") from error


@FUZZ_30
@given(seed=st.integers(0, 2**32))
def test_hostile_failures_of_a_server(seed: int) -> None:
    rng = random.Random(seed)
    content = hostile_answer(rng).encode("utf-8", "replace")
    for status in (400, 401, 402, 404, 413, 422, 429, 500):
        ours_or_nothing(lambda code=status: of_status(code, {"retry-after": rng.choice(WAITS)}, content, ENDPOINT))  # type: ignore[misc]


@FUZZ_30
@given(seed=st.integers(0, 2**32))
def test_hostile_rewards_of_a_server(seed: int) -> None:
    rng = random.Random(seed)
    item = mutated([{"probs": [0.5], "data": [[0.1], [0.2]], "score": 0.3}], rng, 2)
    found = item if isinstance(item, list) else [item]
    for field in ("probs", "data", "score"):
        for last_token in (True, False):
            ours_or_nothing(lambda k=field, at=last_token: undone(reward_in(found, k, at)))  # type: ignore[misc]


@pytest.mark.parametrize(
    "url", ["http://[", "http://[::1", "http://a:b:c", "https://\x00", "http:///x", "//x", f"http://{'x' * 5000}", ""]
)
def test_hostile_addresses(url: str) -> None:
    ours_or_nothing(lambda: endpoint_of(url))


@pytest.mark.parametrize("reward", [10**400, float("nan"), float("inf"), True, "1", None, [[]], {"a": 1}])
def test_a_reward_that_is_no_number_of_use(reward: Any) -> None:
    with pytest.raises(ModelError):
        reward_in([{"score": reward}], "score")


def test_blank_lines_without_end_in_a_fence() -> None:
    """Servers that are held to JSON send them; the pattern that took the fence off ran for hours."""
    assert json_of("```json\n" + "\n" * 50_000 + "x```", SCHEMA) is None
    assert json_of('```json\r\n{"label": "yes"}\n\n ```', SCHEMA) == '{"label": "yes"}'
    assert json_of('```\n{"label": "no"}\n```', SCHEMA) == '{"label": "no"}'


def test_a_wait_of_thousands_of_digits() -> None:
    """It held up all calls for minutes."""
    assert retry_after_s({"retry-after": "9" * 5000}, 0.0) is None
    assert retry_after_s({"retry-after": "1h2m3.5s"}, 0.0) == 3723.5


def test_a_long_unfinished_thought_is_no_answer() -> None:
    assert parse_answers("<think>" + "x" * 50_000 + "\nlabel: yes", ["label"]) is None
    assert parse_answers("<think>" + "x" * 50_000 + "</think>\nlabel: yes", ["label"]) == {"label": True}
    assert parse_answers('{"a":' * 100_000 + "}", ["label"]) is None


def test_one_word_over_and_over_is_compared_in_no_time() -> None:
    assert word_changes("verdict:1\n" * 1000, "1:verdict\n" * 1000) == []


@FUZZ_30
@given(seed=st.integers(0, 2**32))
def test_hostile_adapter_configurations(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng = random.Random(seed)
    folder = tmp_path_factory.getbasetemp()
    valid = {
        "peft_type": "LORA",
        "task_type": "SEQ_CLS",
        "r": 8,
        "lora_alpha": 16,
        "bias": "none",
        "rank_pattern": {},
        "init_lora_weights": True,
    }
    (folder / "adapter_config.json").write_bytes(as_json(mutated(valid, rng, 2), rng))
    (folder / "adapter_model.safetensors").write_bytes(b"not safetensors")
    ours_or_nothing(lambda: plain_config(folder))
    with pytest.raises(ModelError):
        check_adapter(folder, ("score",))


@FUZZ_30
@given(seed=st.integers(0, 2**32))
def test_run_folders_of_other_versions(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng = random.Random(seed)
    folder = RunFolder(tmp_path_factory.mktemp("run"))
    stage = Stage("audit", {"a": 1, "b": {"c": [1]}}, {"train": "x"})
    folder.begin(stage)
    folder.finish(stage, {"n": 1}, 1.0)
    record = folder.stage("audit") / "stage.json"
    record.write_bytes(as_json(mutated(json.loads(record.read_text("utf-8")), rng, 2), rng))
    for work in (
        lambda: folder.is_done(stage),
        lambda: folder.why_redo(stage),
        lambda: folder.output_of("audit"),
        lambda: folder.write_manifest({"a": 1}, ["audit"]),
        lambda: folder.begin(stage),
    ):
        ours_or_nothing(work)


@FUZZ_30
@given(seed=st.integers(0, 2**32))
def test_audits_of_other_versions(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng, file = random.Random(seed), tmp_path_factory.mktemp("audit") / "audit.json"
    file.write_bytes(as_json(mutated(WHOLE, rng, 3), rng))
    ours_or_nothing(lambda: load(AuditResult, file, "cda audit"))


def test_an_adapter_configuration_nested_too_deeply(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("[" * 100_000, "utf-8")
    (tmp_path / "adapter_model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match="nested too deeply"):
        plain_config(tmp_path)


FUZZ_40 = settings(deadline=None, derandomize=True, max_examples=40)
VALUES = (
    "!!int ''", "!!int 'x'", "!!bool x", "!!timestamp x", "!!float ''", "!!python/name:os.system", "!!binary '%%'", "!!set {a}",
    "!!omap [a: 1]", f"0x{'f' * 50}", f"0x{'f' * 5000}", f"0b{'1' * 90}", "1:60:99", "1e999", ".nan", "-.inf", "2026-01-01",
    '"\\0"', '"\\e[31m"', '"\\uD800"', "*x", "&a [*a]", "<<: 1", "{? [a] : b}", f"'{'x' * 100_000}'", "[" * 200 + "]" * 200,
    "'(a'", "'a{99999999999}'", f"'{'(' * 300}'", '"\\U00110000"', "!foo bar", "~", "'(?P<1>a)'", "../../x", "[]", "{}", "-1",
)  # fmt: skip
OVERRIDES = (
    "seed=1", "llm.model=x", "data.columns.prompt=q", "a", "=", "a=", "=b", "..=1", f"{'a.' * 3000}b=1", "model=nope",
    f"model.x={'[' * 300}", "name=\ud800", "name=../x", 'run.folder="a\\0"', f"seed=0x{'f' * 5000}", "llm.base_url=http://[",
    "objectives=[{kind: paired, target: {jargon: .nan}}]", "synthesize.counterfactuals={x: 1}", "biases={}", "model={}",
    "llm.prices={a: {input: -1, output: 1e999}}", f"biases=[../x, {'a' * 300}]", "data=paper", f"data.preset={'x' * 400}",
    "seed=&a [*a]", "biases=[1, null]", "audit.bias=!!int ''", "run.folder=\x1b[31m",
)  # fmt: skip
RECIPE: dict[str, Any] = {
    "name": "x", "biases": ["structure"], "model": {"name_or_path": "embedded", "precision": "fp32"}, "seed": 1,
    "data": {"pairs": "embedded", "columns": {"prompt": "q"}}, "objectives": [{"kind": "paired", "target": 0.8}, "keep"],
    "llm": {"model": "gpt", "prices": {"gpt": {"input": 1, "output": 2}}, "budget_usd": 3, "base_url": "http://x"},
    "synthesize": {"counterfactuals": {"structure": 3}}, "audit": {"votes": "x.csv"}, "run": {"folder": "runs/x"},
}  # fmt: skip
BIAS: dict[str, Any] = {
    "name": "own", "description": "It shouts.", "question": "Does it shout?", "keep": ["the facts"],
    "instructions": {"add": "Shout.", "remove": "Whisper."}, "pattern": "a+b", "limits": {"words": {"ratio": 2}},
    "measure": {"feature": "pattern_count", "present_above": 1}, "treatment": ["pattern_count"], "aspects": {"loud": "Loud?"},
    "offline": {"swaps_add": [{"find": "(a)b", "put": "\\1c"}], "words": {"a": "b"}, "share": 0.5},
}  # fmt: skip


def hostile_yaml(valid: Any, rng: random.Random) -> bytes:
    """The YAML of a mutated value, with what only YAML can say at one of its lines."""
    value = mutated(valid, rng, rng.randint(0, 2))
    lines = (yaml.safe_dump(value) if rng.random() < 0.7 else json.dumps(value, indent=1)).split("\n")
    place = rng.randrange(len(lines))
    if ":" in lines[place] and rng.random() < 0.6:
        lines[place] = f"{lines[place].partition(':')[0]}: {rng.choice(VALUES)}"
    content = "\n".join(lines).encode()
    return broken(content, rng) if rng.random() < 0.2 else content


def used(path: Path) -> None:
    """A bias file put to use: measured with, and written."""
    bias = load_bias(str(path))
    bias.shows("a text of words", "another")
    bias.respaced("a  b", "a b")
    json.dumps(bias.model_dump(mode="json")).encode()
    bias.model_dump_json()


@FUZZ_40
@given(seed=st.integers(0, 2**32))
def test_hostile_recipes_are_resolved_or_refused(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng = random.Random(seed)
    path = tmp_path_factory.getbasetemp() / "mine.yaml"
    path.write_bytes(hostile_yaml(RECIPE, rng))
    ours_or_nothing(lambda: load_recipe(str(path), rng.sample(OVERRIDES, rng.randint(0, 2))))


@FUZZ_40
@given(seed=st.integers(0, 2**32))
def test_hostile_bias_files_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng = random.Random(seed)
    path = tmp_path_factory.getbasetemp() / "own.yaml"
    path.write_bytes(hostile_yaml(BIAS, rng))
    ours_or_nothing(lambda: used(path))


@pytest.mark.parametrize("override", OVERRIDES, ids=range(len(OVERRIDES)))
def test_hostile_overrides(override: str) -> None:
    ours_or_nothing(lambda: load_model_audit("judge:x", {"biases": ["structure"]}, [override]))


def test_the_valid_files_are_read(tmp_path: Path) -> None:
    """Or the fuzzing above would only ever see the first refusal."""
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(BIAS), "utf-8")
    used(tmp_path / "own.yaml")
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(RECIPE), "utf-8")
    assert load_recipe(str(tmp_path / "mine.yaml")).recipe.llm.budget_usd == 3
    for name in builtin_names():
        assert load_bias(name).name == name


@pytest.mark.parametrize("name", ["x" * 5000, "x\0y", f"{'a/' * 3000}b", f"{'x' * 300}.yaml", "\ud800", "x\x1b[31m"])
def test_names_that_no_file_can_have(name: str) -> None:
    with pytest.raises(RecipeError) as caught:
        find_recipe(name)
    assert not UNPRINTABLE.search(str(caught.value))
    with pytest.raises(RecipeError):
        load_bias(name)
    assert is_recipe(name) == name.endswith(".yaml")
    folder_problems(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !!int ''", "a value cannot be read"),
        (f"a: 0x{'f' * 5000}", "1:4: .*more digits"),
        ('a: "\\0"', r"1:4: .*U\+0000"),
        ('a: "x\\e[31m"', r"1:4: .*U\+001B"),
        ('"\\uD800": 1', r"1:1: .*U\+D800"),
        ("a: &x [*x]", "1:8: .*alias"),
        ("a: *b", "undefined alias"),
        ("a: &x {b: 1}\nc: {<<: *x, b: 2, b: 3}", "key 'b' is given twice"),
    ],
)
def test_yaml_that_once_ended_in_a_traceback(text: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        parse_yaml(text, "x.yaml")


@pytest.mark.parametrize("find", ["a{99999999999}", "(" * 3000 + ")" * 3000, "(a"])
def test_a_pattern_that_is_none_is_a_mistake_in_the_bias_file(tmp_path: Path, find: str) -> None:
    for place in ({"pattern": find}, {"offline": {"swaps_add": [{"find": find, "put": "b"}]}}):
        path = tmp_path / "own.yaml"
        path.write_text(yaml.safe_dump({**BIAS, **place}), "utf-8")
        with pytest.raises(RecipeError, match="not a regular expression"):
            load_bias(str(path))
