"""The console: pages for operators, which say what happens now and why."""
