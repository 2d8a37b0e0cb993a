"""What a search tells: while it goes on, at its end, and as a picture."""
