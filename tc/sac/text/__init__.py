"""The text of SaC's notation (C1 to C3, C18): from text to tree and back."""
