"""The Python API: what the commands do, as functions on objects. `import cda` gives their names and loads them when used."""
