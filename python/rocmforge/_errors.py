class Error(RuntimeError):
    """A file, a device or a request can't be served."""


class OptionError(Error, ValueError):
    """An option or an argument is wrong."""


class BusyError(Error):
    """As many answers are under way as may be (options parallel and max_waiting)."""
