"""What the user sees: one module a front end, its view model, and the dashboard."""
