"""The release of "Flattery, Fluff, and Fog" as files that `cda` reads: `python scripts/paper_release.py FOLDER OUT`.

FOLDER is a checkout of https://github.com/anirudhb123/Preference-Model-Biases. OUT gets, for every bias that FOLDER has files of:

    contrasts.jsonl             id, bias, prompt, perturbed, base, preferred: pairs that people voted on, and the stated majority
    votes.jsonl                 id, votes
    verdicts.jsonl              id, vote, annotator: a row for each LLM judge and pair
    triples.jsonl               bias, prompt, original, rewrite, rewrite_of_rewrite, has_attribute, flipped
    labels.jsonl                chosen_<bias>, rejected_<bias>: the training sample
    scores/SIZE-RUN.jsonl       scores of the paper's reward models on the texts of all biases. RUN is base; trained (for each bias the
                                model that was trained against it, so another one for each bias); or a training against several
    scores/BIAS/SIZE-RUN.jsonl  the same of one bias; RUN is base, or the training's name, such as 750_3
    scores/BIAS/JUDGE.jsonl     preferences of an LLM judge with a verdict on every pair
    counterfactuals.jsonl       bias, prompt, base (the chosen answer), perturbed (the rewritten one): what the paper's models were
                                trained on, for `data.contrasts` with the objective `paired`
    supplementary/BIAS.jsonl    prompt, chosen, rejected and labels of Chatbot Arena's pairs, for `data.supplement`
    rewardbench.jsonl           size, run, section, accuracy
    audit.yaml                  the settings of an audit on these files: cda audit MODEL audit=OUT/audit.yaml --bias BIAS

The release's vagueness (breadth without depth) is our `vagueness-paper`; `vagueness` is another bias, noncommittal wording.
Rows that cannot be used and files that were not recognised are counted on the screen.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # the code of this checkout

from cda.data.load import load_rows
from cda.errors import CdaError, DataError, refuse
from cda.files.jsonl import read_json_rows, read_text, write_jsonl, write_text
from cda.records import normal_text

REPOSITORY = "https://github.com/anirudhb123/Preference-Model-Biases"
_ANNOTATED = "human_annotation_data/{bias}/{bias}_grouped_human_annotations.json"
_TRIPLES = "data/perturbations/all_data_perturbed_{bias}.jsonl"
_JUDGED = "*/generative_model_scores/{bias}/{bias}_scored_*.jsonl"
_SCORED = "data/fine_tuned_model_scores/{bias}/{bias}_scored_*.jsonl"
_LABELLED = "data/reward_model_training_labeled_data/*_labeled_{bias}.jsonl"
_TOGETHER = (
    "data/fine_tuned_model_scores/*_*/{bias}_scored_*.jsonl"  # trained against several biases, which name the folder
)
_COUNTERFACTUALS = "data/reward_model_counterfactual_data/*_counterfactuals_{bias}.jsonl"
_SUPPLEMENT = "data/chatbot_arena_labeled_data/*_{bias}_labeled.jsonl"
_BENCHED = "data/rewardbench_results/*/*_rewardbench.out"
_BIAS_OF = (_ANNOTATED, _TRIPLES, _JUDGED, _SCORED, _LABELLED)
_OURS = {"vagueness": "vagueness-paper"}
"""A bias of the release to our name for what it measures, where they differ."""
_SIZE = r"(\d+(?:\.\d+)?B)"
_SETTINGS = """\
# An audit on the released data of "Flattery, Fluff, and Fog", written by scripts/paper_release.py:
#   cda audit my-org/my-reward-model audit={preset} {biases}
# `flipped` is yes in every row of the triples: like the paper, skew over triples counts every rewrite. RATE on those alone whose
# rewrites flipped the measured feature: audit.triple_columns.flipped=unchecked
# How often the side with the bias was chosen in the paper's training sample: audit.labels={labels}
audit:
  ties: as-released   # Table 6: stated majorities, pairs on which people tied or split left out
  max_contrasts: null
{files}
"""
Row = Mapping[str, Any]
Texts = tuple[str, str, str]


class Release:
    """A folder in the layout of the release, its biases, and the files of it that were read."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise DataError(f"{folder}: no such folder. The released data are at {REPOSITORY}")
        self.folder, self.read = folder, set[Path]()
        self.biases = sorted({bias for pattern in _BIAS_OF for bias in self._biases_in(pattern)})
        if not self.biases:
            raise DataError(
                f"{folder}: holds no released file (looked for {_ANNOTATED.format(bias='jargon')} and others); give a checkout of "
                f"{REPOSITORY}"
            )

    def _biases_in(self, pattern: str) -> Iterator[str]:
        named = re.escape(Path(pattern).name).replace(r"\{bias\}", "([^_]+)").replace(r"\*", ".*")
        for path in self.folder.glob(pattern.format(bias="*")):
            if match := re.fullmatch(named, path.name):
                yield match[1]

    def files(self, pattern: str, bias: str = "") -> list[Path]:
        found = sorted(self.folder.glob(pattern.format(bias=bias)))
        self.read.update(found)
        return found

    def left(self) -> list[str]:
        """Data files that nothing was read from."""
        data = (path for kind in ("json", "jsonl", "out") for path in self.folder.rglob(f"*.{kind}"))
        return sorted(str(path.relative_to(self.folder)) for path in data if path not in self.read)


def annotated(path: Path, bias: str) -> tuple[list[Row], Counter[str]]:
    """Pairs that people voted on, with their votes and the stated majority by side; a word for neither side stays as it is.
    DataError: no column says which response carries the bias."""
    rows = read_json_rows(path)
    columns = {name for row in rows for name in row if name.endswith("_response")} - {"reward_model_preferred_response"}
    if len(columns) != 1:
        raise DataError(
            f"{path}: one column must say which response carries the bias; found {sorted(columns) or 'none'}"
        )
    found, unusable, (column,) = list[Row](), Counter[str](), columns
    for number, row in enumerate(rows, 1):
        biased = _word(row[column])
        texts = [row.get("query"), row.get(biased), row.get(_OTHER.get(biased, ""))]
        if not all(isinstance(text, str) and text.strip() for text in texts):
            unusable["a text is missing, or unclear which response carries the bias"] += 1
            continue
        sides = {biased: "perturbed", _OTHER[biased]: "base", "tie": "tie"}
        stated = row.get("most_frequent_preference")
        votes = [str(entry.get("overall_preference") or "no answer") for entry in row["entries"]]
        prompt, perturbed, base = texts
        found.append(
            {
                "id": f"{bias}-{number}", "bias": _OURS.get(bias, bias), "prompt": prompt, "perturbed": perturbed, "base": base,
                "preferred": sides.get(_word(stated)), "votes": [sides.get(_word(vote), vote) for vote in votes],
            }
        )  # fmt: skip
    return found, unusable


_OTHER = {"response_1": "response_2", "response_2": "response_1"}


def _word(answer: object) -> str:
    return str(answer).strip().lower().replace(" ", "_")


def _texts(row: Row, prompt: str, perturbed: str, base: str) -> Texts:
    return normal_text(str(row.get(prompt))), normal_text(str(row.get(perturbed))), normal_text(str(row.get(base)))


def judged(paths: Sequence[Path], bias: str, contrasts: Sequence[Row]) -> Iterator[Row]:
    """The verdicts of each judge; none on a pair that it saw with other texts, or judged in two ways."""
    for path in paths:
        verdicts: dict[Texts, set[str]] = {}
        for row in load_rows(str(path)):
            said = row.get("judgement")
            word = _word(said.get("judgement") if isinstance(said, Mapping) else said)
            for first in _OTHER:
                side = {first: "perturbed", _OTHER[first]: "base", "tie": "tie"}.get(word)
                if side is not None:
                    verdicts.setdefault(_texts(row, "query", first, _OTHER[first]), set()).add(side)
        for row in contrasts:
            found = verdicts.get(_texts(row, "prompt", "perturbed", "base"), set())
            if len(found) == 1:
                yield {"id": row["id"], "vote": found.pop(), "annotator": path.stem.removeprefix(f"{bias}_scored_")}


def preferences(verdicts: Sequence[Row], contrasts: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Each judge that has a verdict on every pair, with them as preferences for the perturbed side: 1, 0 of a tie, −1."""
    sign = {"perturbed": 1, "tie": 0, "base": -1}
    for judge in sorted({row["annotator"] for row in verdicts}):
        votes = {row["id"]: row["vote"] for row in verdicts if row["annotator"] == judge}
        if len(votes) == len(contrasts):
            yield judge, [
                {
                    "id": row["id"], "bias": row["bias"], "prompt": row["prompt"], "response_a": row["perturbed"],
                    "response_b": row["base"], "preference": sign[votes[row["id"]]],
                }
                for row in contrasts
            ]  # fmt: skip


def triples(path: Path, bias: str) -> Iterator[Row]:
    """Answers, their rewrites with the bias and the rewrites of these without it. The rewriter was asked to add the bias, so that
    the answers count as without it; the release labels none of them, and no check was made of its rewrites."""
    for row in load_rows(str(path)):
        yield {
            "bias": _OURS.get(bias, bias), "prompt": row.get("query"), "original": row.get("original_response"),
            "rewrite": row.get("perturbed_response"), "rewrite_of_rewrite": row.get("base_response"),
            "has_attribute": "no", "flipped": "yes",
        }  # fmt: skip


def scored(path: Path, bias: str, contrasts: Sequence[Row]) -> list[Row]:
    """Scores of both sides of each triple; those that people voted on have the id of their contrast, its votes and majority."""
    voted = {_texts(row, "prompt", "perturbed", "base"): row for row in contrasts}
    rows: list[Row] = []
    for number, row in enumerate(load_rows(str(path)), 1):
        contrast = voted.get(_texts(row, "query", "perturbed_response", "base_response"), {})
        rows.append(
            {
                "id": contrast.get("id", f"{bias}-triple-{number}"), "bias": _OURS.get(bias, bias), "prompt": row.get("query"),
                "perturbed": row.get("perturbed_response"), "base": row.get("base_response"),
                "perturbed_score": row.get("perturbed_score"), "base_score": row.get("base_score"),
                "preferred": contrast.get("preferred"), "votes": contrast.get("votes", []),
            }
        )  # fmt: skip
    return rows


def labelled(path: Path, bias: str) -> Iterator[Row]:
    """Labels of both sides; structure's are called chosen_list and rejected_list."""
    rows = load_rows(str(path))
    names = sorted({name.removeprefix("chosen_") for row in rows for name in row if name.startswith("chosen_")})
    column = bias if bias in names else next(iter(names), bias)
    texts = {"prompt": "query", "chosen": "chosen_response", "rejected": "rejected_response"}
    for row in rows:
        yield {ours: row[name] for ours, theirs in texts.items() for name in (ours, theirs) if name in row} | {
            f"{side}_{_OURS.get(bias, bias)}": row.get(f"{side}_{column}") for side in ("chosen", "rejected")
        }


def counterfactual(path: Path, bias: str) -> Iterator[Row]:
    """The answer that was chosen, without the bias, and the rewritten one with it, which the paper's loss puts below."""
    for row in load_rows(str(path)):
        yield {"bias": _OURS.get(bias, bias), "prompt": row.get("query"), "base": row.get("chosen_response"),
               "perturbed": row.get("rejected_response")}  # fmt: skip


def together(files: Mapping[str, Sequence[Row]]) -> tuple[list[Row], int]:
    """The scores of one size and run on the texts of all biases, pairs that people voted on first; and how many of its texts have
    another score in the file of another bias. Such a text keeps its first score: a model gives a text one."""
    rows = sorted((row for own in files.values() for row in own), key=lambda row: not row["votes"])
    first: dict[tuple[str, str], object] = {}
    differing = 0
    found: list[Row] = []
    for row in rows:
        scores = {}
        for side in ("perturbed", "base"):
            own = row[f"{side}_score"]
            kept = first.setdefault((normal_text(str(row["prompt"])), normal_text(str(row[side]))), own)
            differing += kept != own
            scores[f"{side}_score"] = kept
        found.append({**row, **scores})
    return found, differing


def benched(paths: Sequence[Path]) -> Iterator[Row]:
    """RewardBench's sections, the last line of each result file that has them; the release holds no items."""
    for path in paths:
        match = re.fullmatch(rf"{_SIZE}_(.+)_rewardbench", path.stem)
        lines = re.findall(r"Section Scores:\s*(\{[^}]*\})", read_text(path))
        if match and lines:
            for section, accuracy in ast.literal_eval(lines[-1]).items():
                yield {"size": match[1], "run": match[2], "section": section, "accuracy": accuracy}


def write(release: Release, out: Path) -> None:
    """Write every file, and print what was written and left out."""
    files: dict[str, list[Row]] = {
        name: [] for name in ("contrasts", "votes", "verdicts", "triples", "labels", "counterfactuals")
    }
    all_scores: dict[str, dict[str, list[Row]]] = {}
    files["rewardbench"] = list(benched(release.files(_BENCHED)))
    for bias in release.biases:
        contrasts: list[Row] = []
        for path in release.files(_ANNOTATED, bias):
            contrasts, unusable = annotated(path, bias)
            for reason, n in unusable.items():
                print(f"  {path.name}: {n} pairs left out: {reason}")
        files["contrasts"] += [{key: value for key, value in row.items() if key != "votes"} for row in contrasts]
        files["votes"] += [{"id": row["id"], "votes": row["votes"]} for row in contrasts if row["votes"]]
        verdicts = list(judged(release.files(_JUDGED, bias), bias, contrasts))
        files["verdicts"] += verdicts
        files["triples"] += (row for path in release.files(_TRIPLES, bias) for row in triples(path, bias))
        files["labels"] += (row for path in release.files(_LABELLED, bias)[:1] for row in labelled(path, bias))
        for path in release.files(_SCORED, bias):
            of = re.fullmatch(rf"(fine_tuned_)?{_SIZE}(?:_(.+))?", path.stem.removeprefix(f"{bias}_scored_"))
            if of and bool(of[1]) == bool(of[3]):
                rows = scored(path, bias, contrasts)
                _write_rows(out / "scores" / _OURS.get(bias, bias), f"{of[2]}-{of[3] or 'base'}", rows)
                all_scores.setdefault(f"{of[2]}-{'trained' if of[3] else 'base'}", {})[bias] = rows
            else:
                release.read.discard(path)
        for judge, rows in preferences(verdicts, contrasts):
            _write_rows(out / "scores" / _OURS.get(bias, bias), judge, rows)
        for path in release.files(_TOGETHER, bias):
            if of := re.fullmatch(rf"{_SIZE}_(.+)", path.stem.removeprefix(f"{bias}_scored_")):
                run = f"{of[1]}-{path.parent.name}_{of[2]}"
                all_scores.setdefault(run, {})[bias] = scored(path, bias, contrasts)
            else:
                release.read.discard(path)
        for path in release.files(_COUNTERFACTUALS, bias)[:1]:
            files["counterfactuals"] += counterfactual(path, bias)
        for path in release.files(_SUPPLEMENT, bias)[:1]:
            _write_rows(out / "supplementary", _OURS.get(bias, bias), list(labelled(path, bias)))
        print(f"{bias}: {_counts(bias, files, len(release.files(_SCORED, bias)))}")
    for run, by_bias in all_scores.items():
        rows, differing = together(by_bias)
        _write_rows(out / "scores", run, rows)
        if differing:
            print(
                f"scores/{run}.jsonl: {differing} texts of several biases have another score in each; the first is kept"
            )
    refuse([] if any(files.values()) else [f"{release.folder}: holds no row that can be used"])
    out.mkdir(parents=True, exist_ok=True)
    for name, rows in files.items():
        if rows:
            write_jsonl(out / f"{name}.jsonl", rows)
    used = [name for name in ("contrasts", "votes", "verdicts", "triples") if files[name]]
    audit = "\n".join(
        f"  {name}: {json.dumps(str((out / f'{name}.jsonl').resolve()), ensure_ascii=False)}" for name in used
    )
    preset, labels = (out / "audit.yaml").resolve(), (out / "labels.jsonl").resolve()
    biases = " ".join(f"--bias {_OURS.get(bias, bias)}" for bias in release.biases)
    settings = _SETTINGS.format(preset=preset, labels=labels, biases=biases, files=audit)
    write_text(out / "audit.yaml", settings)
    if left := release.left():
        print(f"not recognised: {len(left)} files ({', '.join(left[:3])}{', …' * (len(left) > 3)})")
    print(f"\nWritten: {out}\nNext: cda audit MODEL audit={out / 'audit.yaml'} {biases}")


def _write_rows(folder: Path, name: str, rows: Sequence[Row]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_jsonl(folder / f"{name}.jsonl", rows)


def _counts(bias: str, files: Mapping[str, Sequence[Row]], n_scored: int) -> str:
    ours = _OURS.get(bias, bias)
    labels = sum(f"chosen_{ours}" in row for row in files["labels"])
    own = {
        name: sum(row["bias"] == ours for row in files[name]) for name in ("contrasts", "triples", "counterfactuals")
    }
    verdicts = sum(str(row["id"]).startswith(f"{bias}-") for row in files["verdicts"])
    numbers = {"pairs with people's votes": own["contrasts"], "verdicts of LLM judges": verdicts, "triples": own["triples"],
               "files of scores": n_scored, "labelled pairs": labels,
               "counterfactual pairs": own["counterfactuals"]}  # fmt: skip
    return ", ".join(f"{n} {what}" if n else f"no {what}" for what, n in numbers.items())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="a checkout of the release")
    parser.add_argument("out", type=Path, help="the folder to be written")
    options = parser.parse_args(arguments)
    try:
        write(Release(options.folder), options.out)
    except CdaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
