"""One page about a run, made of what its folder holds. Imports no torch."""
