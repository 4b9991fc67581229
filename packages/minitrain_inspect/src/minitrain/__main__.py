"""The command, from its imports on: `minitrain` and `python -m minitrain`."""

import sys


def command() -> None:
    """Run the command; Ctrl-C while its parts are imported ends it as it would later."""
    try:
        from .cli import main
    except KeyboardInterrupt:
        sys.stderr.write("minitrain: interrupted\n")
        sys.exit(130)
    main()


if __name__ == "__main__":
    command()
