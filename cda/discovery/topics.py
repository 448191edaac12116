"""Topics from which prompts for a search are written: our own, or a user's file of them."""

from __future__ import annotations

from pathlib import Path

from cda.errors import DataError
from cda.files.jsonl import read_text
from cda.files.yaml_file import parse_yaml

_OWN = Path(__file__).parent / "topics.yaml"
_MAX_CHARACTERS = 2_000


def own_topics() -> tuple[str, ...]:
    """The twenty topics of the package: common use, and situations that put an assistant under some pressure."""
    return load_topics(_OWN)


def load_topics(path: Path) -> tuple[str, ...]:
    """Topics of a file, each once, in file order.

    A `.yaml` or `.yml` file is a list of texts. In any other file each line is a topic; blank lines and lines that open
    with `#` are not.

    Raises:
        DataError: Missing, not UTF-8, without a topic, or with an entry that is none.
        RecipeError: Not valid YAML.
    """
    text = read_text(path)
    is_yaml = path.suffix.lower() in (".yaml", ".yml")
    entries = _yaml_entries(text, path) if is_yaml else _lines(text, path)
    topics = tuple(dict.fromkeys(entries))
    if not topics:
        form = "`- <topic>` on each line" if is_yaml else "one topic on each line"
        raise DataError(f"{path}: no topic; write {form}, such as 'Plans for trips with a tight budget'")
    return topics


def _yaml_entries(text: str, path: Path) -> list[str]:
    content = parse_yaml(text, str(path))
    if content is None:
        return []
    if not isinstance(content, list):
        raise DataError(
            f"{path}: a list of topics is needed (`- <topic>` on each line), found a {type(content).__name__}"
        )
    found = []
    for number, one in enumerate(content, 1):
        if not isinstance(one, str) or not one.strip():
            raise DataError(f"{path}: topic {number} is not a text but {one!r:.60}; put quotation marks around it")
        found.append(_within_limit(one, f"{path}: topic {number}"))
    return found


def _lines(text: str, path: Path) -> list[str]:
    lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1)]
    return [_within_limit(line, f"{path}:{number}") for number, line in lines if line and not line.startswith("#")]


def _within_limit(topic: str, where: str) -> str:
    if len(topic) > _MAX_CHARACTERS:
        raise DataError(
            f"{where}: {len(topic):,} characters; a topic is a summary of at most {_MAX_CHARACTERS:,} in a sentence or two"
        )
    return topic.strip()
