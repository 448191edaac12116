"""`cda inspect`: rewrites shown next to their originals."""
