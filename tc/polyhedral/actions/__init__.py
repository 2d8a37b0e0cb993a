"""Actions of a plan, done to schedule trees: mechanism that decides nothing."""
