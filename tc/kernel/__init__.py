"""The kernel IR: its nodes, its rules, its executable definition."""
