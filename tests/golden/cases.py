"""The commands whose output is recorded, and what each of them needs first."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """Commands run one after the other in a folder with the inputs.

    Attributes:
        name: Also the folder in which they write, to `{out}`.
        commands: Words of `cda`; `{llm}` and `{served}` are addresses of local servers.
        after: Cases whose folders they read.
        copy: Folder of a case that is copied to `{out}` beforehand.
        kept: Patterns of the names, below the case's folder, of the files whose content is recorded.
        fails: Each command ends in a message about a mistake.
    """

    name: str
    commands: tuple[str, ...]
    after: tuple[str, ...] = ()
    copy: str = ""
    kept: tuple[str, ...] = ("*",)
    fails: bool = False


# As little of the embedded model as trains and audits: texts of 48 tokens, in fp32.
_TINY = (
    "model.precision=fp32 model.max_length_tokens=48 data.max_pairs=12 audit.max_samples=2 lora.dropout=0.05 "
    "train.num_train_epochs=1 train.per_device_train_batch_size=4 train.eval_steps=2 train.save_steps=2"
)
_DOSED = (
    "audit.max_contrasts=20 audit.max_quality=20 audit.triples=null dose.aim=tie dose.on=yes 'dose.doses=[0, 1, 2]' dose.baselines=false "
    "dose.repeats=2 dose.max_quality_loss=1"
)
_VOTED = "audit.contrasts=contrasts.jsonl audit.votes=votes.csv audit.quality=quality.jsonl audit.triples=triples.jsonl"
_OWN = "--contrasts contrasts.jsonl --bias jargon"
_JUDGE = "llm.model=judge llm.base_url={llm}"
_DISCOVER_LLM = (
    "llm.model=lead llm.seed=7 'discover.policies=[gale,hope]' 'discover.rewriters=[ada,bob,cyd]' discover.samples=1 "
    "discover.prompts_each=4 'discover.parts=[0.3,0.35,0.35]' 'discover.populations=[4,3,2]' 'discover.batches=[6,6]' "
    "discover.mutations=1 discover.responses_each=1 discover.max_validation=12 discover.max_test=12 "
    "discover.topics=topics.txt llm.base_url={llm}"
)
# The whole result, without what each stage leaves of it; discover-offline shows that.
_FOUND = ("run/discover.*", "run/biases/*", "run/report.html", "run/pairs.jsonl")
CASES = (
    Case("version", ("version",)),
    Case("samples", ("samples 0.05", "samples 0.1 --share 0.8 --per-prompt 3 --sd 2 --effect 0.5")),
    Case("dry-run", (
        f"train jargon {_TINY} audit.max_contrasts=4 run.folder={{out}} --dry-run",
        "audit scorers.py:reward --out {out} --dry-run",
        "discover scorers.py:reward --judge scorers.py:preference --out {out} --dry-run",
        "label length --dry-run", "synthesize structure --dry-run", "report vagueness --dry-run",
    )),
    Case("mistakes", ("train jargn", "train jargon train.sedes=3 lora.rank=4", "audit scorers.py:rewrad"), fails=True),
    Case("texts", ("texts {out}",), kept=("*.jsonl",)),
    Case("train", (f"train jargon {_TINY} {_VOTED} run.folder={{out}}",)),
    Case("train-seeds", (f"train length {_TINY} {_DOSED} 'train.seeds=[7, 3]' run.folder={{out}}",)),
    Case("train-reused", (f"train jargon {_TINY} {_VOTED} run.folder=train/run",), ("train",)),
    Case("report", ("report {out} --figures svg",), ("train",), copy="train/run", kept=("run/report/*",)),
    Case("compare-rows", (
        f"audit scorers.py:reward {_OWN} --votes votes.csv --quality quality.jsonl --triples triples.jsonl --out {{out}}/a --export {{out}}/rows/reward.json",
        f"audit scorers.py:debiased {_OWN} --votes votes.csv --quality quality.jsonl --triples triples.jsonl --out {{out}}/b --export {{out}}/rows/debiased.json",
        f"audit scorers.py:preference {_OWN} --quality none --triples none --out {{out}}/c --export {{out}}/rows/more/preference.json",
        "compare {out}/rows --out {out}/rows",
    ), kept=("run/rows/*.json", "run/rows/more/*")),
    Case("merge", ("merge train/run --out {out} --adapter-only",), ("train",)),
    Case("inspect-run", ("inspect train/run --n 2 --model none --html {out}.html",), ("train",)),
    Case("inspect-fresh", ("inspect length --n 2 --model none",)),
    Case("inspect-prompts", ("inspect jargon --prompts", "inspect judge:judge --prompts")),
    Case("bias-new", ("bias new 'uses hedging' --out {out}.yaml", "bias new 'is sarcastic' --out {out}-blank.yaml")),
    Case("label", ("label jargon data.max_pairs=40 run.folder={out}",)),
    Case("synthesize", ("synthesize sycophancy data.max_pairs=60 objectives=[pairs] synthesize.supplementary=0 synthesize.anchors=0 run.folder={out}",)),
    Case("audit-function", ("audit scorers.py:reward --bias length --bias sycophancy --bias vagueness audit.max_contrasts=30 audit.max_quality=30 --samples samples.jsonl --out {out}",)),
    Case("audit-preference", (f"audit scorers.py:preference {_OWN} --quality quality.jsonl --triples none --out {{out}}",)),
    Case("audit-votes", (
        f"audit scorers.py:reward {_OWN} --votes votes.csv --verdicts verdicts.jsonl --quality quality.jsonl "
        "--triples triples.jsonl --out {out}",
    )),
    Case("audit-model", ("audit embedded model.precision=fp32 model.max_length_tokens=48 --bias jargon --bias length "
                         "audit.max_contrasts=6 audit.max_quality=6 audit.rate=2 --out {out}",)),
    Case("audit-served", (f"audit served:{{served}} {_OWN} --quality quality.jsonl --triples triples.jsonl --out {{out}}",)),
    Case("audit-by", ("audit scorers.py:reward --contrasts topics.jsonl --bias jargon --triples topic_triples.jsonl --quality none --by topic "
                      "--by year 'audit.cutoffs={year: [1970, 1990]}' --out {out}",)),
    Case("audit-judge", (f"audit judge:judge {_JUDGE} {_OWN} --quality quality.jsonl --triples none --out {{out}}",)),
    Case("audit-panel", (f"audit judge:judge,other {_JUDGE} {_OWN} --quality none --triples none --out {{out}}",)),
    Case("audit-rubric", (f"audit judge:judge,other,third {_JUDGE} {_OWN} --votes votes.csv --quality none --triples none "
                          "'score.judge.criteria=[correctness, {name: tone, question: \"Which answer is kinder?\"}]' --out {out}",)),
    Case("compare-models", (
        f"compare scorers.py:reward scorers.py:debiased scorers.py:preference judge:judge scorers.py:debiased llm.base_url={{llm}} {_OWN} "
        "--votes votes.csv --quality quality.jsonl --triples none --figures svg --out {out}",
    ), kept=("run/comparison/*",)),
    Case("compare-audits", ("compare audit-votes/run audit-preference/run --out {out}",), ("audit-votes", "audit-preference"),
         kept=("run/comparison/*.json",)),
    Case("compare-trainings", ("compare train/run train-seeds/run audit-votes/run --out {out}",), ("train", "train-seeds", "audit-votes"),
         kept=("run/comparison/*.md",)),
    Case("quality", ("quality scorers.py:reward quality.jsonl --against scorers.py:debiased --out {out}",)),
    Case("best-of", ("best-of scorers.py:reward samples.jsonl --against scorers.py:debiased --beta 3 --beta 0.2 --out {out}",)),
    Case("win-rate-judge", (f"quality judge:judge first.jsonl --over second.jsonl {_JUDGE} --out {{out}}",)),
    Case("dose-scores", ("dose scores:before.jsonl --against scores:after.jsonl --bias jargon --contrasts voted.jsonl --votes dose_votes.jsonl "
                         "--quality scored_pairs.jsonl audit.ties=half --out {out}",)),
    Case("calibrate", ("calibrate scorers.py:reward --bias jargon dose.repeats=3 --contrasts calibrated.jsonl --quality none --out {out}",)),
    Case("data", (
        "data preferences.jsonl --bias jargon --bias length --bias vagueness --by source --out {out}",
        "data labelled.jsonl --labels labelled.jsonl --column chosen_structure=chosen_list "
        "--column rejected_structure=rejected_list --out {out}-labelled",
    )),
    Case("triples", ("triples {out}.jsonl --bias jargon --responses first.jsonl",)),
    Case("study-export", ("study export contrasts.jsonl {out} --participants crowd --people 4 --attention 2",)),
    Case("study-import", ("study import study-export/run filled.csv --out {out}.jsonl",), ("study-export",)),
    Case("discover-offline", ("discover scorers.py:likes_openers --judge scorers.py:dislikes_openers "
                              "'discover.populations=[16,5,3]' 'discover.batches=[10,12]' discover.responses_each=1 --out {out}",),
         kept=(*_FOUND, "run/search/*")),
    Case("discover-attribute", ("discover scorers.py:reward --judge scorers.py:debiased --attribute jargon "
                                "discover.max_test=16 discover.responses_each=1 --out {out}",), kept=_FOUND),
    Case("discover-by-topic", ("discover scorers.py:turning --judge scorers.py:turning_judge --responses by_topic.jsonl --by-topic "
                               "'discover.populations=[8,3]' 'discover.batches=[9]' discover.responses_each=2 --out {out}",),
         kept=("run/topics.*", "run/report.html", "run/topics/*/biases/*.yaml")),
    Case("discover-llm", (f"discover reward.py:reward {_DISCOVER_LLM} --out {{out}}",), kept=_FOUND),
)  # fmt: skip
