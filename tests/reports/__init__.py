"""What broke tools like this one, as tests: one file a kind of report, named for what happens."""
