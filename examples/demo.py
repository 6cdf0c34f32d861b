"""The two-minute demo: ingest the example knowledge base, look things up, print evidence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PAGES = HERE / "ops-kb"
HOME = HERE / ".demo-data"
QUESTIONS = [
    ("an error line", ["ERROR 1205 (HY000): Lock wait timeout exceeded"]),
    ("a question in Chinese", ["从库延迟越来越大怎么排查"]),
    ("a kernel message", ["nf_conntrack: table full, dropping packet"]),
    ("one category only", ["CLUSTERDOWN Hash slot not served", "--category", "redis"]),
    ("meaning only, without BM25", ["磁盘满了但是 du 看不到大文件", "--mode", "dense"]),
]


def knowport(*arguments: str) -> int:
    """Run the command line as a user would, and show what was run."""
    arguments = (*arguments, "--home", str(HOME))
    print(f"\n$ knowport {' '.join(_quoted(a) for a in arguments)}", flush=True)
    command = [sys.executable, "-m", "knowport.entrypoints.start", *arguments]
    return subprocess.run(command, check=False).returncode


def _quoted(argument: str) -> str:
    return f'"{argument}"' if " " in argument or "(" in argument else argument


def main() -> int:
    """Run the demo; returns the first exit code that is not 0."""
    code = knowport("ingest", str(PAGES))
    for what, arguments in QUESTIONS:
        if code:
            return code
        print(f"\n--- {what} " + "-" * (70 - len(what)))
        code = knowport("lookup", *arguments)
    if not code:
        print("\nYour turn; with --json you get exactly what an agent gets:")
        print(f'  {Path(sys.executable).parent}/knowport lookup "..." --home {HOME}')
        print("`make clean` removes the index again.")
    return code


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
