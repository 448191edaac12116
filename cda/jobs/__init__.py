"""What commands and functions of the API share: their options, each declared once, and the steps that every job repeats."""
