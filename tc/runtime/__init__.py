"""The path of a call: arguments, outputs, specialisation, guards, inline cache, thread pool."""
