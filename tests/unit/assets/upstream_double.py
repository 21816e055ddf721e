"""A whole upstream in miniature: every file of a release with its sums, as each upstream publishes them, and every
image in a registry. Also as a server in a thread of its own, for commands that run their own event loop."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from kubexm.assets import ImageReference, catalog
from tests.unit.assets.registry_double import Registry
from tests.unit.assets.samples import layer
from tests.unit.assets.web import Web, serving

KUBERNETES = "v1.34.4"


def content(path: str) -> bytes:
    """What is in the file with this path: nothing real, but its own."""
    return f"{path}\n".encode() * 50


def publish(web: Web, registry: Registry, kubernetes: str = KUBERNETES, *, host: bool = True, prefix: str = "") -> None:
    """Puts all that belongs to a Kubernetes version on the server, host first if asked for, and into the registry."""
    release = catalog.release(kubernetes, "amd64")
    lists: dict[str, list[str]] = {}

    def url(path: str) -> str:
        return f"{prefix}/{path if host else path.partition('/')[2]}"

    for file in release.files:
        if file.rootfs:
            continue
        data = content(file.path)
        web.put(url(file.path), data)
        sum_ = hashlib.sha256(data).hexdigest()
        bare = file.sums_path.endswith(".sha256") and "plugins" not in file.path
        lists.setdefault(file.sums_path, []).append(sum_ if bare else f"{sum_}  {file.path.rpartition('/')[2]}")
    for path, lines in lists.items():
        web.put(url(path), ("\n".join(lines) + "\n").encode())
    base = layer({"base": b"base" * 1000})
    for image in release.images:
        reference = ImageReference.parse(image.reference)
        registry.add_image(reference.repository, reference.tag, [base, layer({"app": image.reference.encode()})])
    for file in release.files:
        if file.rootfs:
            reference = ImageReference.parse(file.rootfs)
            layers = [layer({"usr/local/sbin/haproxy": b"haproxy", "etc/gone": b""}), layer({"etc/.wh.gone": b""})]
            registry.add_image(reference.repository, reference.tag, layers, index=True)


@contextmanager
def upstream(**how: object) -> Iterator[tuple[Web, Registry]]:
    """The server, in a thread."""
    ready = threading.Event()
    stop: asyncio.Event
    loop = asyncio.new_event_loop()
    held: list[tuple[Web, Registry]] = []

    async def serve() -> None:
        nonlocal stop
        stop = asyncio.Event()
        async with serving() as web:
            registry = Registry(web)
            registry.pages_too = True
            publish(web, registry, **how)  # type: ignore[arg-type]
            held.append((web, registry))
            ready.set()
            await stop.wait()

    def body() -> None:
        try:
            loop.run_until_complete(serve())
        finally:
            ready.set()

    thread = threading.Thread(target=body)
    thread.start()
    ready.wait()
    try:
        yield held[0]
    finally:
        loop.call_soon_threadsafe(lambda: stop.set())
        thread.join()
        loop.close()
