"""Entry point of the task image: ``python -m <arguments>``, and its result for the XCom sidecar."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

XCOM = Path("/airflow/xcom")


def main(arguments: list[str], xcom: Path = XCOM) -> int:
    """Run the command, pass its output and signals on, and leave its result where the sidecar reads it."""
    process = subprocess.Popen([sys.executable, "-m", *arguments], stdout=subprocess.PIPE, text=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: process.send_signal(received))
    assert process.stdout is not None
    last = ""
    for line in process.stdout:
        print(line, end="", flush=True)
        last = line.strip() or last
    code = process.wait()
    if xcom.is_dir():
        # The sidecar waits for the file in any case, so a failure leaves an empty result.
        (xcom / "return.json").write_text(last if code == 0 and last.startswith("{") else "{}", encoding="utf-8")
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
