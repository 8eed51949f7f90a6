"""Other projects' profiling interfaces, on this recorder: change the import line."""
