"""Code generators: from a kernel to text, and from text to a callable."""
