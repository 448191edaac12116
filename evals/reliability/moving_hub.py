"""A hub of models and data sets on this machine, over real HTTP, whose `main` can be moved; and a machine's own copy of it."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

_INFO = re.compile(r"/api/(models|datasets)/([\w.-]+/[\w.-]+)(?:/revision/([^/]+))?")
_TREE = re.compile(r"/api/(models|datasets)/([\w.-]+/[\w.-]+)/(tree|paths-info)/([^/]+)/?(.*)")
_FILE = re.compile(r"/(datasets/)?([\w.-]+/[\w.-]+)/resolve/([^/]+)/(.+)")


@dataclass
class MovingHub:
    """Every commit of each repository, by kind (`models`, `datasets`) and id, oldest first, as files; `main` is the last one."""

    address: str = ""
    commits: dict[tuple[str, str], dict[str, dict[str, bytes]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    """Every path, in order."""

    def push(self, kind: str, name: str, files: dict[str, bytes]) -> str:
        """Move `main` to a new commit of these files; its hash."""
        known = self.commits.setdefault((kind, name), {})
        commit = sha1(f"{name} {len(known)}".encode(), usedforsecurity=False).hexdigest()
        known[commit] = files
        return commit

    def environment(self, home: Path) -> dict[str, str]:
        """Variables with which a program asks this hub and keeps its copies in a folder."""
        return {"HF_ENDPOINT": self.address, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}

    def at(self, kind: str, name: str, revision: str | None) -> tuple[str, dict[str, bytes]] | None:
        known = self.commits.get((kind, name), {})
        commit = [*known][-1] if known and revision in (None, "main") else str(revision)
        return (commit, known[commit]) if commit in known else None


def _answer(hub: MovingHub, path: str) -> tuple[int, dict[str, str], bytes]:
    hub.asked.append(path)
    if found := _FILE.fullmatch(path):
        dataset, name, revision, file = found.groups()
        there = hub.at("datasets" if dataset else "models", name, revision)
        if there is None:
            return 404, {"X-Error-Code": "RevisionNotFound"}, b"{}"
        commit, files = there
        if file not in files:
            return 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit}, b"{}"
        etag = sha1(files[file], usedforsecurity=False).hexdigest()
        return 200, {"ETag": f'"{etag}"', "X-Repo-Commit": commit}, files[file]
    if found := _TREE.fullmatch(path):
        kind, name, what, revision, inside = found.groups()
        there = hub.at(kind, name, revision)
        if there is None or (inside and not any(file.startswith(f"{inside}/") for file in there[1])):
            return 404, {"X-Error-Code": "EntryNotFound"}, b"{}"
        rows = [
            {
                "type": "file",
                "path": file,
                "size": len(content),
                "oid": sha1(content, usedforsecurity=False).hexdigest(),
            }
            for file, content in there[1].items()
            if what == "paths-info" or file.startswith(inside)
        ]
        return 200, {"Content-Type": "application/json"}, json.dumps(rows).encode()
    if found := _INFO.fullmatch(path):
        kind, name, revision = found.groups()
        there = hub.at(kind, name, revision)
        if there is None:
            return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"
        commit, files = there
        told = {"_id": "1", "id": name, "sha": commit, "private": False, "gated": False, "disabled": False, "downloads": 0,
                "likes": 0, "tags": [], "siblings": [{"rfilename": file} for file in files],
                "lastModified": "2026-01-01T00:00:00.000Z", "createdAt": "2026-01-01T00:00:00.000Z"}  # fmt: skip
        return 200, {"Content-Type": "application/json"}, json.dumps(told).encode()
    return 404, {}, b"{}"


@contextlib.contextmanager
def moving_hub() -> Iterator[MovingHub]:
    """A hub without repositories."""
    hub = MovingHub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, headers, body = _answer(hub, unquote(urlsplit(self.path).path))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        hub.address = f"http://127.0.0.1:{server.server_port}"
        try:
            yield hub
        finally:
            server.shutdown()


def files_of(folder: Path) -> dict[str, bytes]:
    """A folder's files as a repository holds them."""
    return {
        file.relative_to(folder).as_posix(): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()
    }
