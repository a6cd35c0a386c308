"""Pure decisions: numbers in, verdict out. No clock, no input or output."""
