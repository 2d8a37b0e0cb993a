"""The kernels of `bench.cpu`: programs in tc, inputs, references and what each costs at least."""
