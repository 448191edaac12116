"""Stages that train the adapter and apply its dose."""
