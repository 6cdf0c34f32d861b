"""One script a version, in order."""
