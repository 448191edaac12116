"""Figures of the reports: each drawn once, by Matplotlib, for the page (inline SVG) and for paper (SVG and PDF)."""
