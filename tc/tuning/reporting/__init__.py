"""Reports of a search: while it goes on, at its end, and as a picture."""
