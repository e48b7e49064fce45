"""`python -m rein` is the command `rein`."""

from rein.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
