"""SaC's tensor comprehensions (seed 001): a second notation on the same core."""

from __future__ import annotations

from tc.sac.api import compile as compile
from tc.sac.api import define as define
from tc.sac.api import demand as demand
from tc.sac.api import desugar as desugar
from tc.sac.api import emit as emit
from tc.sac.api import error_bound as error_bound
from tc.sac.api import explain as explain
from tc.sac.api import interpret as interpret
from tc.sac.api import shape_function as shape_function
from tc.sac.function import Function as Function
