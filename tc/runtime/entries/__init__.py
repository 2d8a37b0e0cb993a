"""What serves calls that are like the last one: inline caches, of one entry each."""
