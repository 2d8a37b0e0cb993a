"""Built-in functions as vector arithmetic: one file for each family."""
