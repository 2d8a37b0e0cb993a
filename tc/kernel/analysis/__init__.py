"""What passes and backends ask about a kernel: where accesses lie, what they touch, its cost."""
