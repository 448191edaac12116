"""The part of the Hugging Face hub that uploads and cached downloads ask, over real HTTP on this machine."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

TOKEN = "hf_test"
_API = re.compile(r"/api/models/([\w.-]+/[\w.-]+)/(preupload|commit|branch)/([\w.%-]+)")


class FakeHub:
    """Repositories by name and branch, as files; every commit, with its message; and a status to refuse every write with."""

    def __init__(self, bases: dict[str, Path]) -> None:
        self.bases = bases
        """Models of others, by their id: a cache has them, and the hub is asked whether they are still the same."""
        self.repositories: dict[str, dict[str, dict[str, bytes]]] = {}
        self.visibility: dict[str, str | None] = {}
        self.commits: list[tuple[str, str, str, dict[str, bytes]]] = []
        """Repository, branch, message and files, in order."""
        self.refuses: int | None = None
        self.address = ""

    def answer(self, path: str, lines: list[Any]) -> tuple[int, Any]:
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if self.refuses is not None:
            return self.refuses, {"error": "You may not."}
        if path == "/api/repos/create":
            (asked,) = lines
            name = f"{asked.get('organization') or 'me'}/{asked['name']}"
            is_new = name not in self.repositories
            if is_new:
                self.repositories[name], self.visibility[name] = {"main": {}}, asked.get("visibility")
            return 200 if is_new else 409, {"url": f"{self.address}/{name}", "error": "exists"}
        found = _API.fullmatch(path)
        assert found, path
        name, what, branch = found.groups()
        branches = self.repositories[name]
        if what == "branch":
            is_new = branch not in branches
            branches.setdefault(branch, {})
            return 200 if is_new else 409, {}
        if branch not in branches:
            return 404, {"error": f"no branch {branch}"}
        if what == "preupload":
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False} for file in lines[0]["files"]
            ]
            return 200, {"files": files}
        files = {line["value"]["path"]: b64decode(line["value"]["content"]) for line in lines if line["key"] == "file"}
        (message,) = (line["value"]["summary"] for line in lines if line["key"] == "header")
        branches[branch] |= files
        self.commits.append((name, branch, message, files))
        oid = f"{len(self.commits)}a"
        return 200, {"commitUrl": f"{self.address}/{name}/commit/{oid}", "commitOid": oid}


def _handler(hub: FakeHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            lines = [json.loads(line) for line in self.rfile.read(int(self.headers["Content-Length"])).splitlines()]
            assert self.headers["Authorization"] == f"Bearer {TOKEN}"
            status, content = hub.answer(self.path, lines)
            self._send(status, json.dumps(content).encode())

        def do_HEAD(self) -> None:
            name, _, rest = self.path.strip("/").partition("/resolve/")
            file = hub.bases[name] / rest.partition("/")[2] if name in hub.bases else None
            if file is None or not file.is_file():
                self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": "a" * 40})
                return
            self._send(200, b"", {"ETag": '"1"', "X-Repo-Commit": "a" * 40, "Content-Length": str(file.stat().st_size)})

        def do_GET(self) -> None:
            self._send(404, b"{}")

        def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
                **(headers or {}),
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@contextmanager
def fake_hub(patch: pytest.MonkeyPatch, cache: Path, bases: dict[str, Path] | None = None) -> Iterator[FakeHub]:
    """A hub that the libraries of this process talk to, with a token; `bases` are in the cache of what was downloaded."""
    hub = FakeHub(bases or {})
    for name, folder in hub.bases.items():
        copy = cache / f"models--{name.replace('/', '--')}"
        (copy / "refs").mkdir(parents=True)
        (copy / "refs" / "main").write_text("a" * 40)
        (copy / "snapshots").mkdir()
        (copy / "snapshots" / ("a" * 40)).symlink_to(folder, target_is_directory=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        hub.address = f"http://127.0.0.1:{server.server_port}"
        talk_to(patch, hub.address)
        patch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
        yield hub
        server.shutdown()


def talk_to(patch: pytest.MonkeyPatch, address: str) -> None:
    """Send the hub's client to an address, with a token."""
    from huggingface_hub import constants, hf_api
    from huggingface_hub.utils import _http

    patch.setenv("HF_TOKEN", TOKEN)
    # Libraries keep clients that took their address when they were made, by another test perhaps; a property outranks it,
    # and a client made now keeps the usual address for the tests after this one.
    kept = property(lambda _: address, lambda api, _, usual=constants.ENDPOINT: vars(api).update(endpoint=usual))
    patch.setattr(hf_api.HfApi, "endpoint", kept, raising=False)
    patch.setattr(constants, "ENDPOINT", address)
    patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}")
    patch.setattr(constants, "HF_HUB_OFFLINE", False)
    patch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    _http.close_session()
