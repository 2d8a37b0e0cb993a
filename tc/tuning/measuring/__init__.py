"""What measurements are made of: worker processes, inputs, references, checks, and times."""
