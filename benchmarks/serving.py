"""What HTTP adds to a lookup, and how the service bears many clients at once.

    python benchmarks/serving.py [--seconds 60] [--clients 64] [--queries 200] [--json FILE]

The service runs in this process, over the example knowledge base with the bundled embedder; who
asks it is a process of its own, on the same cores.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import logging
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

import machine
from knowport import KnowledgeBase, load_settings
from knowport.entrypoints.http.server import Server, address_of, listen
from knowport.entrypoints.http.service import Service
from knowport.entrypoints.logging_setup import set_up_logging

MEANING = """
Lookups over HTTP, beside the same lookups in the process of the service.

  in process   KnowledgeBase.lookup: what the service calls
  HTTP         the same through POST /v1/lookup, one at a time, by turns with the calls in process
  fresh        every query is new, so each is embedded
  repeated     queries whose vectors the service still has
  clients      that many at once, each with a connection of its own, without a pause
  /healthz     asked every 50 ms meanwhile, on a connection of its own

Times in milliseconds. The process that asks shares the cores with the service.
"""

EXAMPLES = Path(__file__).parents[1] / "examples" / "ops-kb"
WARM_UP = 20


def main() -> None:
    arguments = _arguments()
    if arguments.ask:
        asyncio.run(_ask(arguments.ask))
        return
    described = machine.description()
    print(machine.heading(MEANING, described), flush=True)
    queries = [json.loads(line)["text"] for line in _lines(EXAMPLES / "queries.jsonl")]
    with TemporaryDirectory(prefix="knowport-bench-") as folder, _served(Path(folder)) as (kb, url):
        single = _single(kb, url, queries, arguments.queries)
        load = {
            kind: _under_load(url, queries, arguments, fresh=kind == "fresh")
            for kind in ("repeated", "fresh")
        }
    result = {"machine": described, "single": single, "load": load}
    print("\n" + _table(result, arguments), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def _lines(file: Path) -> list[str]:
    return [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


@contextmanager
def _served(folder: Path) -> Iterator[tuple[KnowledgeBase, str]]:
    """The example knowledge base, and the address of a service over it."""
    limits = {"port": 0, "rate_per_second": 0, "drain_seconds": 0}
    settings = load_settings({"home": folder / "home", "server": limits})
    set_up_logging("info")
    with (
        (folder / "log").open("w") as log,
        KnowledgeBase(settings=settings) as kb,
        listen(settings.server) as listening,
    ):
        logging.getLogger().handlers[0].setStream(log)  # type: ignore[attr-defined]
        kb.ingest(EXAMPLES)
        started = threading.Event()
        server = Server(Service(kb, loopback=True), listening, started.set)
        thread = threading.Thread(target=server.run_until_told)
        thread.start()
        started.wait()
        try:
            yield kb, address_of(listening)
        finally:
            server.should_exit = True
            thread.join()


# -- one at a time ----------------------------------------------------------------------------


def _single(
    kb: KnowledgeBase, url: str, queries: Sequence[str], count: int
) -> dict[str, dict[str, Any]]:
    """Times in process and over HTTP, by turns, for fresh and for repeated queries."""
    numbers = itertools.count()
    asker = _Asker(url)

    def fresh(query: str) -> str:
        return f"{query} #{next(numbers)}"

    def repeated(query: str) -> str:
        return query

    result = {}
    for name, form in (("fresh", fresh), ("repeated", repeated)):
        spent: dict[str, list[float]] = {"in process": [], "HTTP": []}
        # As few queries as the warm-up has turns, so that afterwards each was asked before.
        turns = itertools.islice(itertools.cycle(queries[:WARM_UP]), WARM_UP + count)
        for turn, query in enumerate(turns):
            ways: list[tuple[str, Callable[[str], float]]] = [
                ("in process", lambda text: _timed(lambda: kb.lookup(text))),
                ("HTTP", asker.one),
            ]
            for way, call in ways if turn % 2 else reversed(ways):
                taken = call(form(query))
                if turn >= WARM_UP:
                    spent[way].append(taken)
        result[name] = {way: _figures(times) for way, times in spent.items()}
    asker.close()
    return result


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1000


def _figures(times: Sequence[float]) -> dict[str, float]:
    return {f"p{share}": machine.percentile(times, share) for share in (50, 99)} | {
        "worst": max(times)
    }


def _under_load(
    url: str, queries: Sequence[str], arguments: argparse.Namespace, *, fresh: bool
) -> dict[str, Any]:
    """So many clients for so long, and meanwhile another process that asks for health."""
    clients, watcher = _Asker(url), _Asker(url)
    seconds = arguments.seconds
    clients.begin(
        {"queries": queries, "fresh": fresh, "clients": arguments.clients, "seconds": seconds}
    )
    watcher.begin({"health": seconds})
    result: dict[str, Any] = {**clients.told(), "healthz": watcher.told()}
    clients.close()
    watcher.close()
    return result


# -- who asks ---------------------------------------------------------------------------------


class _Asker:
    """A process that asks: one request, many, or for health."""

    def __init__(self, url: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, f"--ask={url}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def one(self, query: str) -> float:
        """Milliseconds that one lookup took."""
        self.begin({"query": query})
        return float(self.told())

    def begin(self, what: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def told(self) -> Any:
        """What came of it, when it has ended."""
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


async def _ask(url: str) -> None:
    """Answer each line of standard input with a line."""
    async with _client(url) as client:
        for line in sys.stdin:
            asked = json.loads(line)
            if "query" in asked:
                print(await _request(client, "POST", "/v1/lookup", asked), flush=True)
            elif "health" in asked:
                print(json.dumps(await _health(client, asked["health"])), flush=True)
            else:
                print(json.dumps(await _load(url, **asked)), flush=True)


async def _request(client: httpx.AsyncClient, method: str, path: str, body: Any = None) -> float:
    """Milliseconds of one request, which must succeed."""
    started = time.perf_counter()
    reply = await client.request(method, path, json=body)
    taken = (time.perf_counter() - started) * 1000
    reply.raise_for_status()
    return taken


async def _health(client: httpx.AsyncClient, seconds: float) -> dict[str, float]:
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        times.append(await _request(client, "GET", "/healthz"))
        await asyncio.sleep(0.05)
    return _figures(times)


def _client(url: str) -> httpx.AsyncClient:
    """Without certificates, which take longer to load than all that is measured here."""
    return httpx.AsyncClient(base_url=url, timeout=60, verify=False)


async def _load(
    url: str, *, queries: Sequence[str], fresh: bool, clients: int, seconds: float
) -> dict[str, Any]:
    numbers = itertools.count()
    times: list[float] = []
    outcomes: Counter[str] = Counter()
    end = time.monotonic() + seconds

    async def one(number: int) -> None:
        async with _client(url) as client:
            for query in itertools.cycle([*queries[number:], *queries[:number]]):
                if time.monotonic() > end:
                    return
                text = f"{query} load {next(numbers)}" if fresh else query
                try:
                    times.append(await _request(client, "POST", "/v1/lookup", {"query": text}))
                except httpx.HTTPStatusError as error:
                    outcomes[str(error.response.status_code)] += 1
                except httpx.HTTPError as error:
                    outcomes[type(error).__name__] += 1
                else:
                    outcomes["200"] += 1

    started = time.monotonic()
    await asyncio.gather(*(one(number) for number in range(clients)))
    return {
        "outcomes": dict(outcomes),
        "per_second": len(times) / (time.monotonic() - started),
        "lookup": _figures(times),
    }


# -- what is shown ----------------------------------------------------------------------------


def _table(result: dict[str, Any], arguments: argparse.Namespace) -> str:
    rows = [f"{'one at a time':<34}{'p50':>8}{'p99':>8}{'worst':>8}"]
    for kind, ways in result["single"].items():
        for way, figures in ways.items():
            rows.append(_row(f"{kind}, {way}", figures))
        added = ways["HTTP"]["p50"] - ways["in process"]["p50"]
        rows.append(f"{f'{kind}, HTTP adds':<34}{added:>8.1f}")
    rows.append("")
    rows.append(f"{f'{arguments.clients} clients, {arguments.seconds:g} s each':<34}")
    for kind, load in result["load"].items():
        rows.append(_row(f"{kind}, {load['per_second']:.0f} a second", load["lookup"]))
        rows.append(_row(f"{kind}, /healthz meanwhile", load["healthz"]))
        rows.append(f"{kind}, replies: {load['outcomes']}")
    return "\n".join(rows)


def _row(name: str, figures: dict[str, float]) -> str:
    return f"{name:<34}" + "".join(f"{value:>8.1f}" for value in figures.values())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--ask", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
