"""What values flow: counts, moments and extremes over many batches; knows no model and no widget."""
