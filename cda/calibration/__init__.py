"""Calibration of a scorer that cannot be trained: corrections of its margins, fitted on people's votes."""
