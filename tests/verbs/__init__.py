"""Every verb over every program of the table: what a user may do with a program, and its holes."""
