"""Nothing here is a test: pytest, which collects doctests of every module, has nothing to look for."""

collect_ignore_glob = ["*.py"]
