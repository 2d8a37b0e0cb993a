"""What threads, forks and signals ask of a library: steps, helpers, processors, call sites."""
