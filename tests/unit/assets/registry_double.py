"""A registry for tests: API version 2 in memory, with tokens, mounts and chunked uploads. It refuses what it does not
know, and what a real one would refuse: blobs that do not match their digest, manifests whose blobs are missing,
requests without a token of the right scope."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from tests.unit.assets.web import Answer, Asked, Web

USER, PASSWORD = "pusher", "hush-hush"


@dataclass
class Registry:
    """What it holds, and how it behaves."""

    web: Web
    auth: str = "none"  # none | bearer | basic
    blobs: dict[str, dict[str, bytes]] = field(default_factory=dict)
    manifests: dict[str, dict[str, tuple[str, bytes]]] = field(default_factory=dict)
    uploads: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    tokens: dict[str, set[str]] = field(default_factory=dict)
    fail: list[tuple[str, int]] = field(default_factory=list)
    """The next request whose `METHOD path` matches the pattern gets this status instead; -1 forgets its upload,
    -2 stores half of what was sent and then fails."""
    mounts: bool = True
    pages_too: bool = False
    """Whether the server also serves pages of its own; else everything that is not its API is refused."""

    def __post_init__(self) -> None:
        self.web.handler = self.answer

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.web.port}"

    def methods(self, pattern: str) -> list[str]:
        """The requests whose `METHOD path` matches, as such."""
        asked = [f"{each.method} {each.path}" for each in self.web.asked]
        return [each for each in asked if re.search(pattern, each)]

    def add_image(
        self, repository: str, tag: str, layers: list[bytes], *, arch: str = "amd64", index: bool = False
    ) -> str:
        """Stores an image; gives the digest under its tag."""
        config = json.dumps(
            {"architecture": arch, "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}}
        ).encode()

        def descriptor(data: bytes, kind: str) -> dict[str, object]:
            self.blobs.setdefault(repository, {})[_digest(data)] = data
            return {"mediaType": kind, "digest": _digest(data), "size": len(data)}

        manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
                "config": descriptor(config, "application/vnd.docker.container.image.v1+json"),
                "layers": [descriptor(data, "application/vnd.docker.image.rootfs.diff.tar") for data in layers],
            },
            indent=3,
        ).encode()
        kind = "application/vnd.docker.distribution.manifest.v2+json"
        held = self.manifests.setdefault(repository, {})
        held[_digest(manifest)] = held[tag] = (kind, manifest)
        if not index:
            return _digest(manifest)
        listed = [
            {
                "mediaType": kind,
                "digest": _digest(b"?"),
                "size": 1,
                "platform": {"os": "windows", "architecture": arch},
            },
            {
                "mediaType": kind,
                "digest": _digest(b"!"),
                "size": 1,
                "platform": {"os": "linux", "architecture": "s390x"},
            },
            {
                "mediaType": kind,
                "digest": _digest(manifest),
                "size": len(manifest),
                "platform": {"os": "linux", "architecture": arch},
            },
        ]
        document = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": listed}
        held[tag] = (str(document["mediaType"]), json.dumps(document).encode())
        return _digest(manifest)

    def answer(self, asked: Asked) -> Answer | None:
        parts = urlsplit(asked.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if parts.path == "/token":
            return self._token(asked, parse_qs(parts.query))
        if asked.method == "GET" and parts.path == "/v2/":
            return (200, {}, b"{}") if self.auth == "none" else (401, {"WWW-Authenticate": "Basic realm=x"}, b"")
        match = re.fullmatch(r"/v2/(.+)/(manifests|blobs)/(.+|uploads/)", parts.path)
        if match is None and self.pages_too and not parts.path.startswith("/v2/"):
            return None
        if match is None:
            return _error(404, "UNSUPPORTED", f"nothing at {parts.path}")
        repository, kind, rest = match.groups()
        if (upload := re.fullmatch(r"/v2/(.+)/blobs/uploads/(.*)", parts.path)) is not None:
            repository, kind, rest = upload[1], "uploads", upload[2]
        refused = self._check_access(asked, repository, query)
        if refused is not None:
            return refused
        for number, (pattern, status) in enumerate(self.fail):
            if re.search(pattern, f"{asked.method} {asked.path}"):
                del self.fail[number]
                return self._misbehave(asked, rest, status)
        if kind == "manifests":
            return self._manifest(asked, repository, rest)
        if kind == "uploads":
            return self._upload(asked, repository, rest, query)
        return self._blob(asked, repository, rest)

    def _misbehave(self, asked: Asked, rest: str, status: int) -> Answer:
        if status == -1:
            self.uploads.pop(rest, None)
            return _error(404, "BLOB_UPLOAD_UNKNOWN", "never heard of it")
        if status == -2:
            repository, data = self.uploads[rest]
            self.uploads[rest] = (repository, data + asked.body[: len(asked.body) // 2])
            status = 502
        return _error(status, "UNKNOWN", "on purpose") if status < 500 else (status, {}, b"")

    def _check_access(self, asked: Asked, repository: str, query: dict[str, str]) -> Answer | None:
        given = asked.headers.get("authorization", "")
        if self.auth == "none":
            return None
        if self.auth == "basic":
            right = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            return None if given == right else (401, {"WWW-Authenticate": 'Basic realm="here"'}, b"")
        need = {f"repository:{repository}:{'pull' if asked.method in {'GET', 'HEAD'} else 'push'}"}
        if "mount" in query:
            need.add(f"repository:{query['from']}:pull")
        if need <= self.tokens.get(given.removeprefix("Bearer "), set()):
            return None
        realm = f'Bearer realm="{self.web.url}/token",service="registry.test",scope="repository:{repository}:pull"'
        return 401, {"WWW-Authenticate": realm}, b""

    def _token(self, asked: Asked, query: dict[str, list[str]]) -> Answer:
        right = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if query.get("service") != ["registry.test"]:
            return _error(400, "DENIED", "wrong service")
        if asked.headers.get("authorization") != right:
            return _error(401, "UNAUTHORIZED", "wrong password")
        allowed = set()
        for scope in query["scope"]:
            _, name, actions = scope.split(":")
            allowed |= {f"repository:{name}:{action}" for action in actions.split(",")}
        token = f"token-{len(self.tokens)}"
        self.tokens[token] = allowed
        return 200, {"Content-Type": "application/json"}, json.dumps({"token": token}).encode()

    def _manifest(self, asked: Asked, repository: str, target: str) -> Answer:
        held = self.manifests.setdefault(repository, {})
        if asked.method == "PUT":
            document = json.loads(asked.body)
            for blob in (document["config"], *document["layers"]):
                if blob["digest"] not in self.blobs.get(repository, {}):
                    return _error(400, "MANIFEST_BLOB_UNKNOWN", blob["digest"])
            kind = asked.headers["content-type"]
            held[target] = held[_digest(asked.body)] = (kind, asked.body)
            return 201, {"Docker-Content-Digest": _digest(asked.body)}, b""
        if target not in held:
            return _error(404, "MANIFEST_UNKNOWN", target)
        kind, data = held[target]
        if kind not in asked.headers.get("accept", ""):
            return _error(404, "MANIFEST_UNKNOWN", "not of a kind you accept")
        return 200, {"Content-Type": kind, "Docker-Content-Digest": _digest(data)}, data

    def _blob(self, asked: Asked, repository: str, digest: str) -> Answer | None:
        data = self.blobs.get(repository, {}).get(digest)
        if data is None:
            return _error(404, "BLOB_UNKNOWN", digest)
        if asked.method == "HEAD":
            return 200, {"Docker-Content-Digest": digest, "Content-Length": str(len(data))}, b""
        if asked.path not in self.web.pages:
            self.web.put(asked.path, data)
        return None  # served as a page, with ranges and whatever faults the test gave it

    def _upload(self, asked: Asked, repository: str, name: str, query: dict[str, str]) -> Answer:
        if asked.method == "POST" and not name:
            source = self.blobs.get(query.get("from", ""), {})
            if self.mounts and query.get("mount") in source:
                self.blobs.setdefault(repository, {})[query["mount"]] = source[query["mount"]]
                return 201, {}, b""
            name = f"u{len(self.web.asked)}"
            self.uploads[name] = (repository, b"")
            return 202, {"Location": f"/v2/{repository}/blobs/uploads/{name}?state=1"}, b""
        if name not in self.uploads or self.uploads[name][0] != repository:
            return _error(404, "BLOB_UPLOAD_UNKNOWN", name)
        have = self.uploads[name][1]
        if asked.method == "GET":
            return 204, {"Range": f"0-{max(0, len(have) - 1)}", "Location": asked.path}, b""
        start = asked.headers.get("content-range", f"{len(have)}-").partition("-")[0]
        if int(start) != len(have):
            return _error(416, "RANGE_INVALID", f"have {len(have)}, got {start}")
        have += asked.body
        self.uploads[name] = (repository, have)
        if asked.method == "PATCH":
            return 202, {"Location": f"{asked.path}1", "Range": f"0-{len(have) - 1}"}, b""
        if asked.method != "PUT":
            return _error(405, "UNSUPPORTED", asked.method)
        if _digest(have) != query.get("digest"):
            return _error(400, "DIGEST_INVALID", "not what was announced")
        del self.uploads[name]
        self.blobs.setdefault(repository, {})[_digest(have)] = have
        return 201, {"Docker-Content-Digest": _digest(have)}, b""


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _error(status: int, code: str, message: str) -> Answer:
    return (
        status,
        {"Content-Type": "application/json"},
        json.dumps({"errors": [{"code": code, "message": message}]}).encode(),
    )
