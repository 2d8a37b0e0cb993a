"""Range inference: ranges, shapes and preconditions from the sizes of a call."""
