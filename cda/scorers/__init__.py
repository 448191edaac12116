"""Anything that scores, behind one Protocol, and the engine that scores each distinct text once."""
