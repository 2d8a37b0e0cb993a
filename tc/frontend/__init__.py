"""From text to syntax tree and back: tokens, lexer, parser, printer."""
