"""A PostgreSQL cluster in the scratch folder, on 127.0.0.1 and a free port, with a canary table.

PostgreSQL refuses to run as root, so it runs as another user in tests that run as root.
"""

import glob
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

START_LIMIT = 30  # seconds
TABLES = """
CREATE TABLE orders (id int PRIMARY KEY, item text, amount int);
INSERT INTO orders SELECT n, 'plank ' || n, n * 10 FROM generate_series(1, 40) AS n;
CREATE TABLE credentials (id int PRIMARY KEY, secret text);
INSERT INTO credentials VALUES (1, 'hunter2');
CREATE TABLE canary (id int PRIMARY KEY, note text);
INSERT INTO canary VALUES (1, 'alive');
"""


def program(name: str) -> str:
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}")) or [shutil.which(name)]
    if not found[-1]:
        raise RuntimeError(f"{name} is missing: install postgresql")
    return found[-1]


class Postgres:
    def __init__(self, scratch: Path):
        self.folder = scratch / "postgres"
        self.log = scratch / "postgres.log"
        self.user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
        self.child: subprocess.Popen | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        self.folder.mkdir()
        if self.user:
            shutil.chown(self.folder, "postgres", "postgres")
            # The scratch folder is private, and the other user must be able to traverse it.
            self.folder.parent.chmod(0o711)
        data = str(self.folder / "data")
        subprocess.run([program("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"],
                       cwd=self.folder, check=True, capture_output=True, timeout=START_LIMIT, **self.user)
        with self.log.open("wb") as out:
            self.child = subprocess.Popen(
                [program("postgres"), "-D", data, "-k", str(self.folder), "-p", str(self.port), "-h", "127.0.0.1", "-F",
                 "-c", "shared_buffers=16MB"], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out,
                stderr=subprocess.STDOUT, **self.user)
        end = time.monotonic() + START_LIMIT
        while time.monotonic() < end and self.child.poll() is None:
            if self.psql("SELECT 1", check=False) == "1":
                self.psql(TABLES)
                return
            time.sleep(0.1)
        raise RuntimeError(f"PostgreSQL did not start: {self.log.read_text(errors='replace')[-1000:]}")

    def psql(self, sql: str, check: bool = True) -> str:
        done = subprocess.run([program("psql"), "-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-d", self.url],
                              input=sql, text=True, capture_output=True, timeout=START_LIMIT, check=False)
        if check and done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout.strip()

    def state(self) -> str:
        """Returns the state that no client may change: the canary, and the names of the tables."""
        return self.psql("SELECT id, note FROM canary ORDER BY id; SELECT tablename FROM pg_tables "
                         "WHERE schemaname = 'public' ORDER BY 1;")

    def stop(self) -> None:
        if self.child is None:
            return
        self.child.terminate()
        try:
            self.child.wait(10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait(5)
