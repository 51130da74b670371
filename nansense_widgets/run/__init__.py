"""How training proceeds: schedule, modes, pause and resume, the worker thread, loops on the main thread."""
