"""Writes vectors.npz, the bundled model's vectors of all that the tests beside it embed::

    python tests/golden/record_vectors.py

Making them takes half of the time of those tests. What is not in the file is made when it is asked
for, so an outdated one costs time and nothing else; ``test_vectors.py`` holds it against the model.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
FILE = FOLDER / "vectors.npz"


def main() -> None:
    FILE.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "KNOWPORT_TEST_CACHE": cache}
        command = [sys.executable, "-m", "pytest", str(FOLDER), "--ignore-glob=*test_vectors.py"]
        subprocess.run(command, env=environment, check=True)
        with closing(sqlite3.connect(Path(cache) / "vectors.sqlite3")) as made:
            rows = made.execute("SELECT name, vector FROM vectors ORDER BY name").fetchall()
    np.savez_compressed(
        FILE,
        names=np.array([list(bytes.fromhex(name)) for name, _ in rows], dtype=np.uint8),
        vectors=np.stack([np.frombuffer(vector, dtype=np.float32) for _, vector in rows]),
    )
    sys.stdout.write(f"{len(rows)} vectors\n")


if __name__ == "__main__":
    main()
