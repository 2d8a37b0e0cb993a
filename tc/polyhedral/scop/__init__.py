"""What a program is to the polyhedral model: domains, accesses, dependences."""
