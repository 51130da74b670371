"""Pictures of tensors: from a CPU tensor to the bytes of a strip. Knows no model and no widget."""
