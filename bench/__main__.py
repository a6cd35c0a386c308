"""``python -m bench [NAME]``: run one benchmark or all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def names() -> list[str]:
    """Every benchmark, by its module's name."""
    return sorted(p.stem for p in HERE.glob("*.py") if p.stem not in {"__init__", "__main__", "table"})


def main() -> int:
    """Run each asked-for benchmark in a process of its own, so that none pays for another's imports."""
    asked = sys.argv[1:] or names()
    unknown = sorted(set(asked) - set(names()))
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(names())}", file=sys.stderr)
        return 2
    codes = [subprocess.run([sys.executable, "-m", f"bench.{name}"], check=False).returncode for name in asked]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
