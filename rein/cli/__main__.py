"""`python -m rein.cli` is the command `rein`."""

import sys

from rein.cli.entry import main

sys.exit(main())
