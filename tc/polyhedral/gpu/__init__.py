"""GPUs: mapping to blocks and threads, promotion to shared memory and registers, barriers."""
