"""Functions that frameworks derive from a function (gradients, tangents, batches), each made once,
and functions known by their texts alone, which frameworks store."""
