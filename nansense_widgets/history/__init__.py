"""What was: states of a run that can be gone back to."""
