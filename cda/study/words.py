"""What participants are told, and what the folder's README says: nothing that hints at the bias."""

from __future__ import annotations

from cda.study.records import Kind, Study

TITLE = "Which answer is better?"
CHOICES = {"A": "A is better", "B": "B is better", "tie": "No difference"}

_ALL = (
    "You will see a question and two answers to it, A and B. Read both to the end, then say which one is better.",
    "Better means: the one you would rather have given to the person who asked. Is it right? Does it answer what was asked? "
    "Can that person understand it and do something with it? How much each of these counts is for you to judge.",
    "Judge each item by itself. Who or what wrote an answer does not matter, and which of the two stands as A is drawn by lot. "
    "Everything is shown as plain text, just as it was written.",
    "Choose “no difference” where you would not mind which of the two is given, and not where it is hard to decide.",
)
_KIND: dict[Kind, str] = {
    "experts": "Check what you would check in your own work. Each item asks for a few words on what decided it.",
    "crowd": "No special knowledge is needed. A reason is welcome, but not needed.",
}
_CHECKS = "In a few items one answer is plainly wrong; they show that items are being read."


def instructions(study: Study) -> tuple[str, ...]:
    """Paragraphs for participants."""
    checks = f" {_CHECKS}" if any(one.is_check for one in study.items.values()) else ""
    return (*_ALL, _KIND[study.kind] + checks)


def readme(study: Study, contrasts_file: bool) -> str:
    """README.md of the folder, for whoever runs the study."""
    each = [len(given) for given in study.participants.values()]
    n_checks = sum(one.is_check for one in study.items.values())
    checks = f" and {n_checks} attention checks" if n_checks else ""
    load = f"{min(each)}" if min(each) == max(each) else f"{min(each)} to {max(each)}"
    contrasts = (
        "- `contrasts.jsonl`: the pairs that were made of your triples, for `cda audit --pairs`. **Keep it to yourself.**\n"
        if contrasts_file
        else ""
    )
    told = "\n".join(f"> {paragraph}\n>" for paragraph in instructions(study)).removesuffix("\n>")
    return f"""# A study of {len(study.items) - n_checks} pairs{checks}

{len(study.participants)} participants ({study.kind}), {load} items for each, {study.judgements} judgements wanted on each pair.
Study {study.fingerprint}, seed {study.seed}.

## Files

- `index.html`: the page on which people judge. It needs no network and keeps answers in the participant's own browser. Send
  it as a file or put it, alone, on any web server; `index.html?participant=p01` opens it for one participant. Everybody gets
  a code of their own (`p01`, `p02`, …), and sends back the file that the page offers at the end.
- `assignments.json`: who sees which items in which order, and which text stands as answer A.
- `key.json`: which answer is which. **Keep it to yourself**: it is not in the page, and a participant who knows it is no judge.
{contrasts}- `items.csv`: the same as a table, a row a judgement, for those who work on paper or in a spreadsheet: fill the column
  `choice` with A, B or tie. A cell that a spreadsheet could take for a formula starts with an apostrophe; the import undoes it.
- `label_studio.json`, `label_studio.xml`: tasks and labelling configuration for Label Studio. Each task is to be annotated
  {study.judgements} times, which the Community edition sets by its API alone: POST to `/api/projects` with
  `"maximum_annotations": {study.judgements}` as you create the project. Export as JSON.

## Then

    cda study import THIS_FOLDER results-*.json
    cda audit my-org/my-reward-model --pairs {"THIS_FOLDER/" if contrasts_file else "your_"}contrasts.jsonl --votes THIS_FOLDER/votes.jsonl

Answers may come from the page, from Label Studio and from tables at once. Do not export anew into this folder while people
are judging: their answers belong to this study alone.

## What participants are told

{told}
"""
