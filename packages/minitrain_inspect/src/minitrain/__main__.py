"""`python -m minitrain`: the command."""

from .cli import main

main()
