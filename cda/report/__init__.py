"""Tables, figures and pages, in a terminal, in Markdown and in HTML."""
