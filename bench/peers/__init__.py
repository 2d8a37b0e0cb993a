"""The libraries that `bench.cpu` compares with, each in a process of its own, and tc itself."""
