"""The version of autograd-core, read by the build and by `__init__`."""

__version__ = "0.1.0"
