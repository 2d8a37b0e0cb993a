"""Types of expressions and tensors, and every conversion made explicit."""
