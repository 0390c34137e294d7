"""The one exception of this package."""


class DataError(ValueError):
    """A file, an argument or an index set that cannot be used.

    The message is one sentence that names the file or argument and says how to mend it.
    """
