"""Claim: texts in other languages are measured by what holds for them or refused in one sentence with a way out, never given an
English label or an English rewrite; and every command prints whatever the encoding of its stream and the width of its terminal.

    python -m evals.reliability.fault_languages    (about 5 minutes on 2 cores; part of `faults` too)
    python -m evals.reliability.fault_languages --only languages
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pty
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from cda.biases import builtin_names, load_bias
from cda.embedded.rules import RuleRewriter
from cda.errors import DataError
from cda.features import measure
from cda.files.jsonl import read_json
from cda.inert import width
from cda.records import RewriteRequest, user_prompt
from cda.results.base import Estimate, Missing
from cda.rewriting.labels import exhibits
from cda.stats.drift import feature_drift, measured
from evals.reliability.fault_runs import Attempt
from evals.shared import ROOT, Check, finish

# One recipe for eggs; with the number of words, letters counted for scripts without spaces, by hand.
TEXTS = {
    "Chinese": ("烧水之前先把锅洗干净。然后放入鸡蛋，煮八分钟。最后用冷水冲一下！", 28),
    "Chinese, traditional": ("先把水燒開。再放入雞蛋，煮八分鐘就可以了。", 18),
    "Japanese": ("お湯を沸かします。卵を入れて八分待ちます。", 19),
    "Thai": ("ต้มน้ำก่อนแล้วใส่ไข่ลงไป", 18),
    "Khmer": ("ដាំទឹកសិន។ បន្ទាប់មកដាក់ស៊ុត។", None),
    "Burmese": ("ရေကို အရင်ဆူအောင်တည်ပါ။ ပြီးရင် ကြက်ဥထည့်ပါ။", None),
    "Lao": ("ຕົ້ມນ້ຳກ່ອນ ແລ້ວໃສ່ໄຂ່ລົງໄປ", None),
    "Korean": ("먼저 물을 끓입니다. 그다음 달걀을 넣고 팔 분 동안 기다립니다.", 10),
    "Hindi": ("पहले पानी उबालें और फिर अंडे डालें। आठ मिनट तक रुकें।", 11),
    "Arabic": ("اغلِ الماء أولًا. ثم ضع البيض وانتظر ثماني دقائق. هل تحبه طريًا؟", 12),
    "Hebrew": ("קודם מרתיחים מים. אחר כך שמים את הביצים ומחכים שמונה דקות.", 11),
    "Russian": ("Сначала вскипятите воду. Потом положите яйца и подождите восемь минут.", 10),
    "Greek": ("Πρώτα βράστε το νερό. Μετά βάλτε τα αυγά και περιμένετε οκτώ λεπτά.", 12),
    "German": ("Zuerst wird das Wasser gekocht, und dann werden die Eier für acht Minuten in den Topf gelegt.", 17),
    "French": ("Faites bouillir de l'eau dans une casserole, et mettez les œufs pour huit minutes avec du sel.", 17),
    "Spanish": ("Primero se hierve el agua en una olla, y los huevos se ponen por ocho minutos con la sal.", 19),
    "Italian": ("Si fa bollire l'acqua in una pentola, e le uova sono pronte con otto minuti di cottura nel sale.", 19),
    "Dutch": ("Eerst kookt men het water, en dan gaan de eieren voor acht minuten in de pan met wat zout van het huis.", 22),
    "Portuguese": ("Primeiro se ferve a água em uma panela, e os ovos ficam por oito minutos com o sal do mar.", 20),
    "Polish": (
        "Najpierw zagotuj wodę w dużym garnku, a potem ostrożnie włóż jajka i gotuj je przez osiem minut. Jeśli wolisz miękkie, "
        "wyjmij je wcześniej, bo w skorupkach jeszcze trochę dochodzą, a potem zalej je zimną wodą.", 35,
    ),
}  # fmt: skip
ENGLISH = "Boil the water first, and then put the eggs into it for eight minutes. If you like them soft, take them out earlier."
MADE_FOR_ENGLISH = ("jargon", "complexity", "sentiment", "sycophancy", "vagueness")


def counted(name: str, _: Path) -> str | None:
    text, n = TEXTS[name]
    found = measure(text, "words")
    return None if (found == n if n is not None else found > 3) else f"{found:g} words, by hand {n}"


def labelled(name: str, _: Path) -> str | None:
    """English measures give no label; length does."""
    text = TEXTS[name][0]
    wrong = [bias for bias in MADE_FOR_ENGLISH if exhibits(text, load_bias(bias)) is not None]
    wrong += [] if exhibits(text * 2, load_bias("length"), text) else ["length"]
    wrong += [
        name for name in ("flesch_reading_ease", "long_word_share", "hedges") if not math.isnan(measure(text, name))
    ]
    return ", ".join(wrong) or None


def rewritten(name: str, _: Path) -> str | None:
    """Every bias's rules refuse, in one sentence that names the count, the first text and the way out."""
    text = TEXTS[name][0]
    requests = [RewriteRequest(user_prompt("?"), text, "add", text)] * 3
    for bias in (load_bias(name) for name in builtin_names()):
        if bias.offline is None:
            continue
        try:
            return f"{bias.name}: {RuleRewriter().rewrite(requests, bias)[0]}"
        except DataError as error:
            said = str(error)
            if not all(part in said for part in ("3 of 3", "text 1", "llm.model=")) or "\n" in said:
                return said
    return None


def compared(name: str, _: Path) -> str | None:
    """Drift of 30 pairs: lengths are there, readability says why not, in how many pairs."""
    text = TEXTS[name][0]
    base = [" ".join([text] * (1 + at % 3)) for at in range(30)]
    drifts = feature_drift(
        measured([f"{one} {text}" for one in base]),
        measured(base),
        [str(at) for at in range(30)],
    )
    found = {drift.feature: drift.difference for drift in drifts}
    words, reading = found["words"], found["flesch_reading_ease"]
    if not isinstance(words, Estimate) or words.value != measure(text, "words"):
        return f"words: {words}"
    return None if isinstance(reading, Missing) and "30 of 30" in reading.reason else f"readability: {reading}"


def refused(name: str, folder: Path) -> str | None:
    """The command says in one line why English measures cannot label the pairs, and what to do."""
    text = TEXTS[name][0]
    rows = [{"prompt": f"? {n}", "chosen": f"{text} {n}", "rejected": f"{n} {text}"} for n in range(10)]
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    said, status = _piped(["label", "jargon", "data.pairs=pairs.jsonl", "--out", "run"], "utf-8", folder)
    errors = [line for line in said.splitlines() if line.startswith("error:")]
    fine = status == 2 and len(errors) == 1 and "10 of 10 pairs" in errors[0] and "llm.model=" in errors[0]
    return None if fine and "Traceback" not in said else f"status {status}: {said[-400:]}"


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("list", "biases"), ("list", "recipes"), ("list", "nothing"), ("--help",), ("audit", "--help"), ("config",), ("config", "llm"),
    ("train", "jargon", "--dry-run"), ("audit", "mine.py:score", "--bias", "jargon", "--triples", "none", "--quality", "none", "--out", "run"),
    ("audit", "学校.py:score"), ("label", "jargon", "data.pairs=日本語→.jsonl"), ("report", "café"),
)  # fmt: skip
ENCODINGS = ("ascii", "cp1252", "latin-1", "cp437", "utf-8")
KINDS = ("languages", "encodings")
SCORER = "def score(prompts, responses):\n    return [float(len(one)) for one in responses]\n"


def _environment(encoding: str, columns: int) -> dict[str, str]:
    own = {"PYTHONIOENCODING": encoding, "LANG": "C", "PYTHONUTF8": "0", "NO_COLOR": "1", "COLUMNS": str(columns)}
    return os.environ | own | {"PYTHONPATH": str(ROOT), "TERM": "xterm", "HF_HUB_OFFLINE": "1"}


def _piped(words: Sequence[str], encoding: str, folder: Path) -> tuple[str, int]:
    done = subprocess.run(
        [sys.executable, "-m", "cda", *words], env=_environment(encoding, 60), cwd=folder, capture_output=True, timeout=600,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.stdout.decode(encoding) + done.stderr.decode(encoding), done.returncode


def piped(words: Sequence[str], encoding: str, folder: Path) -> str | None:
    (folder / "mine.py").write_text(SCORER, encoding="utf-8")
    said, status = _piped(words, encoding, folder)  # decoding raises for a character that the encoding does not know
    return (
        None
        if status in (0, 2) and "Traceback" not in said and "\x1b" not in said
        else f"status {status}: {said[-400:]}"
    )


def on_terminal(words: Sequence[str], columns: int, encoding: str, folder: Path) -> str | None:
    """No line is wider than the terminal, but for a single word such as a path, and the lines of libraries."""
    (folder / "mine.py").write_text(SCORER, encoding="utf-8")
    main, end = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "cda", *words],
        env=_environment(encoding, columns),
        cwd=folder,
        stdin=end,
        stdout=end,
        stderr=end,
    ) as process:
        os.close(end)
        read = bytearray()
        while True:
            try:
                chunk = os.read(main, 65536)
            except OSError:  # the other end is closed
                break
            if not chunk:
                break
            read += chunk
    os.close(main)
    said = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", read.decode(encoding)).replace("\r\n", "\n")
    if process.returncode not in (0, 2) or "Traceback" in said:
        return f"status {process.returncode}: {said[-400:]}"
    lines = [part for line in said.split("\n") for part in line.split("\r")]
    wide = [line for line in lines if width(line) > columns and len(line.split()) > 1]
    return f"{len(wide)} lines wider than {columns}: {wide[0]!r}" if wide else None


def _by_language(
    what: str, attack: Callable[[str, Path], str | None], names: Sequence[str] = tuple(TEXTS)
) -> list[Attempt]:
    return [Attempt("languages", f"{what}: {name}", partial(attack, name)) for name in names]


ATTEMPTS: tuple[Attempt, ...] = (
    *_by_language("words are counted", counted),
    *_by_language("no English label", labelled),
    *_by_language("no English rewrite", rewritten),
    *_by_language("drift by what holds", compared),
    *_by_language("pairs are refused", refused, ("Chinese", "Arabic", "Russian", "Polish")),
    *(
        Attempt("encodings", f"{encoding}: cda {' '.join(words)}", partial(piped, words, encoding))
        for encoding in ENCODINGS
        for words in COMMANDS
    ),
    *(
        Attempt(
            "encodings",
            f"{columns} columns, {encoding}: cda {' '.join(words)}",
            partial(on_terminal, words, columns, encoding),
        )
        for columns, encoding in ((40, "ascii"), (60, "utf-8"))
        for words in COMMANDS
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", choices=KINDS, help="one kind; the other's last result stays")
    only = parser.parse_args().only
    last = ROOT / "evals" / "results" / "fault_languages.json"
    seen = [row for row in read_json(last)["numbers"]["attempts"] if row["kind"] != only] if only else []
    with tempfile.TemporaryDirectory() as root:
        for number, attempt in enumerate(one for one in ATTEMPTS if only in (None, one.kind)):
            (folder := Path(root) / str(number)).mkdir()
            try:
                wrong = attempt.attack(folder)
            except Exception as error:
                wrong = f"breaks down: {error!r}"
            seen.append(
                {"kind": attempt.kind, "name": attempt.name, "fine": wrong is None}
                | ({"wrong": wrong} if wrong else {})
            )
            if wrong:
                print(seen[-1], flush=True)
    by_kind = {}
    for kind in KINDS:
        fine = [row["fine"] for row in seen if row["kind"] == kind]
        by_kind[kind] = {"survived": sum(fine), "tried": len(fine)}
    checks = [
        Check(f"{kind}: all of {n['tried']} survived", str(n["survived"]), n["survived"] == n["tried"])
        for kind, n in by_kind.items()
    ]
    return finish(
        "fault_languages",
        (__doc__ or "").split("\n\n")[0].replace("\n", " "),
        checks,
        {"by_kind": by_kind, "attempts": seen},
    )


if __name__ == "__main__":
    sys.exit(main())
