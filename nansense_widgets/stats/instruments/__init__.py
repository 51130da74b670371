"""The user's own metrics and tensors: evaluated at the end of a batch, on the training thread."""
