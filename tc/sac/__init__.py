"""SaC's tensor comprehensions (seed 001): a second notation on the same core."""
