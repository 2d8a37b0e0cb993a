"""SaC's programs as defs of tc, one for each specialisation (C26)."""
