"""The child of `cda.models.load`, run as a script: it imports nothing of this package, so that it starts in a tenth of a second.

Its standard input is the task as JSON. It prints what it is at before each step, and `ended` after the last: the parent knows from
the last line what a limit stopped.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

LENGTH = 2_000
"""Characters of a text: nested repetition shows at 30, cubic growth at this length."""
_PIECES = ("a", "A", "0", " ", "\n", "\r\n", "\t", ".", "'", "_", "-", "é", "中", "aA", "a ", "a1", " \n", "a'", "!a")
MOST_WRITTEN = 10_000_000
"""Characters that a template may write for a short conversation."""


def main() -> None:
    task = json.load(sys.stdin)
    _limit(task["cpu_s"], task["memory_bytes"])
    for pattern in task["patterns"]:
        _try_pattern(pattern)
    if task["template"]:
        _try_template(task["template"], task["special"])
    _say("ended")


def _say(step: str) -> None:
    print(step, flush=True)


def _limit(cpu_s: int, memory_bytes: int) -> None:
    try:
        import resource
    except ImportError:  # Windows: the parent's clock alone
        return
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    except (ValueError, OSError):  # macOS has no such limit
        return


def _try_pattern(pattern: str) -> None:
    """Split texts that repeat common characters, or words of the pattern itself, to an end that fits none."""
    from tokenizers import Regex, pre_tokenizers

    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    for piece in dict.fromkeys([*_PIECES, *re.findall(r"\w+", pattern)]):
        text = (piece * LENGTH)[:LENGTH]
        _say(f"pattern {pattern[:80]!a} over a text of {LENGTH:,} characters, {piece[:20]!a} again and again")
        for whole in (text, f"{text}\0"):
            split.pre_tokenize_str(whole)  # beyond a number of steps the library gives up, and this process ends


def _try_template(source: str, special: dict[str, str]) -> None:
    import jinja2

    _say("template")
    try:
        template = _environment().from_string(source)
    except jinja2.TemplateSyntaxError as error:
        _say(f"wrong {json.dumps(f'line {error.lineno}: {error.message}')}")
        sys.exit()
    except MemoryError:
        sys.exit(1)
    except Exception:  # what else goes wrong shows when a text is rendered
        return
    turn = [{"role": "user", "content": "A question?"}, {"role": "assistant", "content": "An answer. " * 50}]
    for messages in (turn[:1], turn, turn * 20, [{"role": "system", "content": "A rule."}, *turn]):
        for asking in (False, True):
            try:
                text = template.render(
                    messages=messages, tools=None, documents=None, add_generation_prompt=asking, **special
                )
            except MemoryError:
                sys.exit(1)
            except Exception:  # many refuse some conversations, which is said of the conversation
                continue
            if len(text) > MOST_WRITTEN:
                sys.exit(1)


def _environment() -> Any:
    """Jinja2 as Transformers sets it up for chat templates."""
    from datetime import datetime

    import jinja2
    from jinja2.ext import Extension, loopcontrols
    from jinja2.nodes import ScopedEvalContextModifier
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            block = ScopedEvalContextModifier(lineno=line)
            block.options = []
            block.body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return block

    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, **{"ensure_ascii": False} | options)
    environment.globals |= {"raise_exception": refuse, "strftime_now": lambda form: datetime.now().strftime(form)}
    return environment


if __name__ == "__main__":
    main()
