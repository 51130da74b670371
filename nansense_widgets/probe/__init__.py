"""What if the input were different: one batch once more, as it was or perturbed, without a trace."""
