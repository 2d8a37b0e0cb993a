"""What a program means: checking, range inference, the reference interpreter."""
