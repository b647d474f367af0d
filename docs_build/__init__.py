"""Tools that build the documentation site; not part of the package."""
