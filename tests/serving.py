"""A real HTTP server on this machine that answers each POST by a function, and can misbehave."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from replies import reply

Reply = tuple[int, Any] | tuple[int, Any, dict[str, str]] | str
"""Status, JSON (bytes: as they are) and headers; or `drop` (no answer), `hang`, `reset` (in the middle of the body)."""
Body = dict[str, Any]
Answer = Callable[[Body], Reply]
Routes = Callable[[str, str, Body | None], Reply]
"""Method, path and, for a POST, the body."""


class Served:
    """A server that answers each POST by a function, and can die and come back at the same address."""

    def __init__(
        self, answer: Answer | None = None, get: Callable[[], Reply] | None = None, routes: Routes | None = None
    ) -> None:
        self.answer = answer
        self.get = get
        """Answers a GET; by default the list of models alone is served."""
        self.routes = routes
        """Answers everything, by its path."""
        self.bodies: list[Body] = []
        self.paths: list[str] = []
        self.keys: list[str | None] = []
        self.headers: list[Mapping[str, str]] = []
        """Headers of each POST and GET."""
        self.models = ["rm"]
        self.port = 0
        self._server: ThreadingHTTPServer | None = None
        self._open: set[socket.socket] = set()
        self._over = threading.Event()
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        served = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                served._open.add(self.connection)

            def do_POST(self) -> None:
                served.headers.append(self.headers)
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
                served.bodies.append(body)
                served.paths.append(self.path)
                served.keys.append(self.headers["Authorization"])
                if served.routes is not None:
                    self._reply(served.routes("POST", self.path, body))
                elif served.answer is not None:
                    self._reply(served.answer(body))

            def do_GET(self) -> None:
                served.headers.append(self.headers)
                if served.routes is not None:
                    self._reply(served.routes("GET", self.path, None))
                    return
                if served.get is not None:
                    self._reply(served.get())
                    return
                listed = {"object": "list", "data": [{"id": name} for name in served.models]}
                self._reply((200, listed) if self.path.endswith("/models") else (501, {"error": "not served here"}))

            def _reply(self, reply: Reply) -> None:
                if isinstance(reply, str):
                    if reply == "hang":
                        served._over.wait(20)
                    elif reply == "reset":
                        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
                        self.wfile.flush()
                    served.reset(self.connection)
                    self.close_connection = True
                    return
                status, content, *headers = reply
                payload = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in ({"Content-Type": "application/json"} | (headers[0] if headers else {})).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            allow_reuse_address = True
            request_queue_size = 256
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass

        self._over.clear()
        self._server = Server(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        """Close the port and every connection, as a process that is killed."""
        self._over.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        for connection in list(self._open):
            self.reset(connection)
        self._open.clear()

    @staticmethod
    def reset(connection: socket.socket) -> None:
        try:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        except OSError:
            pass


@contextmanager
def serving() -> Iterator[Callable[..., str]]:
    """Starts servers, as `Served` does, and ends them; gives their base URLs."""
    with ExitStack() as stack:

        def start(answer: Answer, get: Callable[[], Reply] | None = None) -> str:
            server = Served(answer, get)
            stack.callback(server.stop)
            return f"{server.url}/v1"

        yield start


def said(text: str | None, finish: str = "stop", tokens: tuple[int, int] = (7, 3)) -> Reply:
    """A chat completion of a server that does not name its model; without text, a refusal."""
    return reply(text, "", tokens, finish_reason=finish)


def status(code: int, content: object = None, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return code, content if content is not None else {"error": {"message": "no"}}, named


def error(message: str, param: str | None = None, code: str | None = None) -> Reply:
    problem = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return status(400, {"error": problem})


def user_text(body: dict[str, Any]) -> str:
    return str(body["messages"][1]["content"])
