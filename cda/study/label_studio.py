"""The study as tasks for Label Studio, and its JSON export read back.

Its Pairwise tag knows no tie, so that the configuration has three choices instead; a Pairwise selection is read as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from xml.sax.saxutils import quoteattr

from cda.study.records import Study
from cda.study.words import CHOICES, TITLE, instructions

_SIDES = {"left": "A", "right": "B"}
_WORDS = {text.lower(): word for word, text in CHOICES.items()}


def tasks(study: Study) -> list[dict[str, object]]:
    """A task an item. Label Studio deals tasks out by itself, so that sides are drawn once an item."""
    return [
        {"data": {"study": study.fingerprint, "item": one.id, "prompt": one.prompt,
                  "answer_a": one.texts[0], "answer_b": one.texts[1]}}
        for one in study.items.values()
    ]  # fmt: skip


def config(study: Study) -> str:
    """The labelling configuration. Label Studio folds spaces and tabs, unless it is told to keep them."""
    told = "\n".join(f'  <Header size="5" value={quoteattr(line)}/>' for line in instructions(study))
    required = str(study.kind == "experts").lower()
    choices = "\n".join(
        f'    <Choice value={quoteattr(text)} hotkey="{at}"/>' for at, text in enumerate(CHOICES.values(), 1)
    )
    return f"""<View>
  <Header value={quoteattr(TITLE)}/>
{told}
  <View style="white-space: pre-wrap"><Text name="prompt" value="$prompt"/></View>
  <View style="white-space: pre-wrap; display: grid; grid-template-columns: 1fr 1fr; gap: 1rem">
    <View><Header size="4" value="A"/><Text name="answer_a" value="$answer_a"/></View>
    <View><Header size="4" value="B"/><Text name="answer_b" value="$answer_b"/></View>
  </View>
  <Choices name="choice" toName="prompt" choice="single" showInLine="true" required="true">
{choices}
  </Choices>
  <TextArea name="justification" toName="prompt" rows="2" maxSubmissions="1" required="{required}"
            placeholder="What decided it?"/>
</View>
"""


def annotated(content: list[Mapping[str, object]]) -> Iterator[tuple[Mapping[str, object], Mapping[str, object]]]:
    """Each task's data with each of its annotations that was not cancelled."""
    for task in content:
        data, found = task.get("data"), task.get("annotations")
        for one in found if isinstance(found, list) else ():
            if isinstance(one, Mapping) and not one.get("was_cancelled"):
                yield data if isinstance(data, Mapping) else {}, one


def choice_of(annotation: Mapping[str, object]) -> str | None:
    """A, B or tie; None where nothing or more than one thing was chosen."""
    found = {word for part in _parts(annotation) if (word := _word(part))}
    return found.pop() if len(found) == 1 and found < CHOICES.keys() else None


def justification_of(annotation: Mapping[str, object]) -> str:
    """What was written beside it."""
    texts = [part.get("text") for part in _parts(annotation)]
    return " ".join(str(line) for text in texts if text for line in (text if isinstance(text, list) else [text]))


def annotator(annotation: Mapping[str, object]) -> str | None:
    """A name for whoever annotated, apart from the codes of the study's participants."""
    by = annotation.get("completed_by")
    if isinstance(by, Mapping):
        by = by.get("id", by.get("email"))
    return None if by is None or isinstance(by, bool) or not isinstance(by, int | str) else f"label-studio-{by}"


def _parts(annotation: Mapping[str, object]) -> list[Mapping[str, object]]:
    result = annotation.get("result")
    parts = result if isinstance(result, list) else []
    values = [part.get("value") for part in parts if isinstance(part, Mapping)]
    return [value for value in values if isinstance(value, Mapping)]


def _word(value: Mapping[str, object]) -> str | None:
    if "selected" in value:
        return _SIDES.get(str(value["selected"]))
    choices = value.get("choices")
    if isinstance(choices, list) and len(choices) == 1:
        return _WORDS.get(str(choices[0]).strip().lower())
    return "several" if choices else None
