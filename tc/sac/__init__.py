"""SaC's tensor comprehensions (seed 001): a second notation on the same core."""

from tc.sac.verbs import demand as demand
from tc.sac.verbs import interpret as interpret
