"""The user-facing API versions. Knows nothing of YAML, files or hosts."""
