"""Tools for writers of estimators."""

__all__: list[str] = []
