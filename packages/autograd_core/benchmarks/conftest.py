"""Nothing here is a test: pytest, which collects doctests of every module, must not import contestants."""

collect_ignore_glob = ["*.py", "*/*.py"]
