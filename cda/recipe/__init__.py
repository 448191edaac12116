"""Recipes: their schema, presets and overrides, with every mistake reported at once."""
