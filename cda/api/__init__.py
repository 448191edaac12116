"""The Python API: the commands as functions on objects. `import cda` gives their names and loads them when used."""
