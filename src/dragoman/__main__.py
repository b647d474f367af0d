"""Run the command line: `dragoman ...` or `python -m dragoman ...`."""

from dragoman.cli.app import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
