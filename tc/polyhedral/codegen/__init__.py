"""From a schedule tree to a kernel."""
