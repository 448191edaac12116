"""Broad topics of the embedded texts: 85 prompts with responses are too few for more than two searches."""

from __future__ import annotations

BROAD: dict[str, tuple[str, ...]] = {
    "nature, numbers and home": (
        "astronomy", "basic computing", "biology", "camping and outdoors", "cars and bicycles", "chemistry", "computing",
        "cooking", "engineering and how machines work", "food science", "gardening", "home electrics and appliances",
        "home repair", "mathematics and arithmetic", "mathematics and statistics", "oceans and ecology",
        "office software and email", "painting and decorating", "pets", "physics", "sewing, woodworking and crafts",
        "shopping and consumer goods", "space", "weather and climate", "weather and environment",
    ),
    "people and society": (
        "board games and hobbies", "civics and law", "economics and personal finance", "exercise", "geography",
        "health and sleep", "history", "human body and first aid basics", "journalism and writing", "language and grammar",
        "language and writing", "law and everyday rights", "literature", "music and art", "music and visual art",
        "parenting", "parenting and children", "personal finance", "public health and nutrition basics",
        "religion and philosophy", "sport and fitness", "travel", "travel and transport", "work and careers",
        "workplace communication", "world history",
    ),
}  # fmt: skip
_BROAD_OF = {domain: topic for topic, domains in BROAD.items() for domain in domains}


def broad_topic(domain: str) -> str:
    """The broad topic of an embedded domain; one without a broad topic stays as it is."""
    return _BROAD_OF.get(domain, domain)
