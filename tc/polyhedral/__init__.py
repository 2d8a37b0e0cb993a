"""From a shaped program to a kernel."""
