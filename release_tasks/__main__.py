"""``python -m release_tasks``."""

import sys

from release_tasks.cli import main

sys.exit(main(sys.argv[1:]))
