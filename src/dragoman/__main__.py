"""How is the command started? `dragoman ...`, or `python -m dragoman ...`."""

from dragoman.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
