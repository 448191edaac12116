import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from replies import Answer, reply
from typer.testing import CliRunner

from cda.biases import builtin_names, load_bias
from cda.cli import app
from cda.embedded.rules import RuleRewriter
from cda.errors import DataError
from cda.features import TEXT_FEATURES, measure, n_words, sentences, words
from cda.languages import is_english, scopes_of
from cda.records import Pair, RewriteRequest, user_prompt
from cda.results.base import Estimate, Missing
from cda.rewriting.labels import PairLabel, exhibits
from cda.stats.drift import feature_drift, identify, measured, overlap_of

CHINESE = "烧水之前先把锅洗干净。然后放入鸡蛋，煮八分钟。最后用冷水冲一下！"
TEXTS = {
    "Chinese": (CHINESE, 28, 3),
    "Japanese": ("お湯を沸かします。卵を入れて八分待ちます。", 19, 2),
    "Thai": ("ต้มน้ำก่อนแล้วใส่ไข่ลงไป", 18, None),
    "Lao": ("ຕົ້ມນ້ຳກ່ອນ", None, None),
    "Khmer": ("ដាំទឹកសិន។ បន្ទាប់មកដាក់ស៊ុត។", None, 2),
    "Korean": ("먼저 물을 끓입니다. 그다음 달걀을 넣고 팔 분 동안 기다립니다.", 10, 2),
    "Hindi": ("पहले पानी उबालें और फिर अंडे डालें। आठ मिनट तक रुकें।", 11, 2),
    "Arabic": ("اغلِ الماء أولًا. ثم ضع البيض وانتظر ثماني دقائق. هل تحبه طريًا؟", 12, 3),
    "Hebrew": ("קודם מרתיחים מים. אחר כך שמים את הביצים ומחכים שמונה דקות.", 11, 2),
    "Russian": ("Сначала вскипятите воду. Потом положите яйца и подождите восемь минут.", 10, 2),
    "Greek": ("Πρώτα βράστε το νερό. Μετά βάλτε τα αυγά και περιμένετε οκτώ λεπτά.", 12, 2),
    "German": ("Zuerst wird das Wasser gekocht, und dann werden die Eier für acht Minuten in den Topf gelegt. "
               "Ölen ist nicht nötig, und das Salz kommt mit dem Ei.", 28, 2),
    "French": ("Faites d'abord bouillir de l'eau dans une casserole, et mettez les œufs pour huit minutes avec du sel. "
               "Élever le feu est inutile pour les œufs que vous aimez.", 29, 2),
    "Spanish": ("Primero se hierve el agua en una olla, y los huevos se ponen por ocho minutos con la sal. "
                "¿Son más duros para usted? Es lo que se come con pan.", 31, 3),
}  # fmt: skip
ENGLISH = (
    "Boil the water first, and then put the eggs into it for eight minutes. If you like them soft, take them out "
    "earlier, since they go on cooking in their shells."
)


@pytest.mark.parametrize("name", TEXTS)
def test_words_and_sentences_of_a_language(name: str) -> None:
    text, n, n_sentences = TEXTS[name]
    if n is not None:
        assert n_words(text) == n
    if n_sentences is None:
        assert math.isnan(measure(text, "sentences"))
    else:
        assert measure(text, "sentences") == n_sentences == len(sentences(text))


def test_a_long_text_without_spaces_has_many_words_and_a_mixed_one_both_kinds() -> None:
    assert n_words(CHINESE * 10) == 280
    assert n_words("我用Python 3写代码 ok👍") == 8  # 我 用 Python 3 写 代 码 ok
    assert words("हिन्दी भाषा") == ["हिन्दी", "भाषा"]  # vowel signs do not part a word
    assert words("cafe\u0301 ol\u00e9") == ["cafe\u0301", "ol\u00e9"]
    assert n_words("👍🏽 🎉") == 0


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_made_for_english_does_not_hold_in_other_languages(name: str) -> None:
    text = TEXTS[name][0]
    assert not is_english(text)
    for feature in ("flesch_reading_ease", "long_word_share", "hedges"):
        assert math.isnan(measure(text, feature))
    for feature in ("words", "characters", "list_lines", "headers", "bold", "exclamations", "emoji", "questions"):
        assert measure(text, feature) >= 0


def test_all_holds_for_english_with_foreign_names_code_and_emoji() -> None:
    others = (
        "",
        " See `北京大学的数据库系统教程`.",
        " He lives in 東京.",
        " 👍👍👍",
        " São Tomé, Łódź.",
        "\n```\n代码代码代码\n```",
    )
    for text in (ENGLISH + other for other in others):
        assert is_english(text)
        assert not any(math.isnan(measure(text, feature)) for feature in TEXT_FEATURES)
    assert scopes_of("123 + 4") == scopes_of(ENGLISH)


def test_capitals_make_names_in_scripts_that_have_them_alone() -> None:
    assert measure("Потом в город Москву приехала Анна.", "specifics") == 2
    assert math.isnan(measure(TEXTS["Hindi"][0], "specifics"))


def test_marks_of_other_scripts_are_counted() -> None:
    assert measure("真的吗？好！太好了！", "questions") == 1
    assert measure("真的吗？好！太好了！", "exclamations") == 2
    assert measure(TEXTS["Arabic"][0], "questions") == 1


@pytest.mark.parametrize("bias", ["jargon", "complexity", "sentiment", "vagueness", "sycophancy"])
@pytest.mark.parametrize("name", ["Chinese", "German", "Russian", "Arabic"])
def test_a_measure_made_for_english_labels_no_other_text(bias: str, name: str) -> None:
    text = TEXTS[name][0]
    assert exhibits(text, load_bias(bias)) is None
    assert exhibits(ENGLISH, load_bias(bias)) is False
    label = PairLabel.measured_of(Pair(user_prompt("?"), text, ENGLISH), load_bias(bias))
    assert label.labels == {"chosen": None, "rejected": False}
    assert label.reason is not None and "holds in" in label.reason


@pytest.mark.parametrize("name", TEXTS)
def test_length_is_labelled_in_every_language(name: str) -> None:
    text = TEXTS[name][0]
    assert exhibits(text * 2, load_bias("length"), text) is True
    assert exhibits(text, load_bias("length"), text * 2) is False


@pytest.mark.parametrize("name", ["Chinese", "Thai", "Hindi", "Russian", "German", "French"])
@pytest.mark.parametrize("bias", [name for name in builtin_names() if load_bias(name).offline is not None])
def test_rules_refuse_another_language_in_one_sentence(name: str, bias: str) -> None:
    text, direction = TEXTS[name][0], "add"
    request = RewriteRequest(user_prompt("?"), text, direction, text)
    with pytest.raises(DataError) as error:
        RuleRewriter().rewrite(
            [request, request, RewriteRequest(user_prompt("?"), ENGLISH, direction, ENGLISH)], load_bias(bias)
        )
    said = str(error.value)
    assert "another language than 2 of 3 texts" in said and "the first is text 1" in said and "llm.model=" in said
    assert "\n" not in said


def test_a_few_foreign_texts_are_failed_rewrites() -> None:
    requests = [RewriteRequest(user_prompt("?"), text, "add", text) for text in (ENGLISH, CHINESE, ENGLISH)]
    first, foreign, last = RuleRewriter().rewrite(requests, load_bias("length"))
    assert first.text is not None and last.text is not None
    assert (foreign.text, foreign.reason) == (None, "in another language than the rules")


def test_rules_in_a_language_of_ones_own_hold_there() -> None:
    bias = load_bias("structure")
    own = bias.model_copy(
        update={
            "offline": bias.offline.model_copy(update={"open_with": ["Das sind die Punkte, die für Sie wichtig sind:"]})
        }
    )
    text = TEXTS["German"][0]
    assert own.speaks_as(text) and not own.speaks_as(ENGLISH)
    (rewrite,) = RuleRewriter().rewrite([RewriteRequest(user_prompt("?"), text, "add", text)], own)
    assert rewrite.text is not None and rewrite.text.count("\n- ") >= 1


def test_drift_of_what_does_not_hold_is_missing_and_the_rest_is_checked() -> None:
    n, rng = 40, np.random.default_rng(3)
    ids = [str(at) for at in range(n)]
    base = [CHINESE * (1 + at % 3) for at in range(n)]
    longer = [text + CHINESE for text in base]
    sides = measured(longer), measured(base)
    found = {drift.feature: drift for drift in feature_drift(*sides, ids)}
    reading = found["flesch_reading_ease"]
    assert isinstance(reading.difference, Missing) and reading.beyond is None and reading.n_unheld == n
    assert reading.difference.reason == "holds in English only: 40 of 40 pairs have a text that is not"
    assert isinstance(found["words"].difference, Estimate)
    assert found["words"].difference.value == 28
    assert "n_unheld" not in found["words"].model_dump()
    overlap, _ = overlap_of(*sides, ids)
    assert overlap.n == 0 and overlap.beyond["words"] == n and overlap.beyond["flesch_reading_ease"] == 0
    same, _ = overlap_of(sides[1], sides[1], ids)
    assert same.n == n
    assert identify(rng.normal(size=n), *sides, ids).overlap.n == 0


def test_a_set_of_several_languages_is_counted() -> None:
    base = [f"{ENGLISH} {'It is fine. ' * (at % 3)}" for at in range(30)] + [CHINESE] * 10
    longer = [text + " And that is all." for text in base[:30]] + [CHINESE * 2] * 10
    drifts = feature_drift(measured(longer), measured(base), [str(at) for at in range(40)])
    reading = next(drift for drift in drifts if drift.feature == "flesch_reading_ease")
    assert isinstance(reading.difference, Estimate) and reading.difference.n == 30
    assert reading.name == "flesch reading ease (10 pairs left out)"


def test_an_llm_labels_what_the_measure_refuses(tmp_path: Path, serve: Callable[[Answer], str]) -> None:
    """The command that is refused, and the same with the setting that its message names."""
    rows = [
        {"prompt": f"怎么煮鸡蛋？{n}", "chosen": CHINESE + str(n), "rejected": f"好{n}。" + CHINESE} for n in range(12)
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = ["label", "jargon", f"data.pairs={tmp_path / 'pairs.jsonl'}"]
    refused = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "refused")])
    assert refused.exit_code == 2
    assert "long word share holds in English only, and 12 of 12 pairs" in refused.output
    assert "the first is pair 1 ('烧水" in refused.output and "llm.model=NAME" in refused.output
    url = serve(
        lambda body: reply(
            json.dumps(dict.fromkeys(body["response_format"]["json_schema"]["schema"]["properties"], "no"))
        )
    )
    done = CliRunner().invoke(
        app,
        [
            *words,
            "llm.model=j",
            f"llm.base_url={url}",
            "--yes",
            "--out",
            str(tmp_path / "run"),
        ],
    )
    assert done.exit_code == 0, done.output
    assert "unparsed" not in done.output
