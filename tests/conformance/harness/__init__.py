"""The conformance harness: installs the official suite, runs it, and compares. Standard library only."""
