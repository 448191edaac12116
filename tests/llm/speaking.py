"""A server over real HTTP that says exactly what a test wants it to say: any status, headers and bytes, or none."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, dict[str, str], bytes] | str
"""Status, headers and body; or `hang`, `drop` (no answer), `reset` (in the middle of the body)."""
Speak = Callable[[dict[str, Any]], Reply]


def said(text: str | None, finish: str = "stop", refusal: str | None = None, tokens: tuple[int, int] = (7, 3)) -> Reply:
    message = {"role": "assistant", "content": text, "refusal": refusal}
    choice = {"index": 0, "finish_reason": finish, "message": message}
    usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
    return status(200, {"id": "x", "object": "chat.completion", "created": 0, "choices": [choice], "usage": usage})


def status(code: int, content: object = None, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return code, named, json.dumps(content if content is not None else {"error": {"message": "no"}}).encode()


def error(message: str, param: str | None = None, code: str | None = None) -> Reply:
    problem = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return status(400, {"error": problem})


def user_text(body: dict[str, Any]) -> str:
    return str(body["messages"][1]["content"])


class _Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        pass


@contextmanager
def speaking() -> Iterator[Callable[[Speak], str]]:
    """Starts servers that can misbehave, by what they answer to a JSON body; gives their base URLs."""
    servers: list[_Server] = []
    over = threading.Event()

    def start(answer: Speak) -> str:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                reply = answer(json.loads(self.rfile.read(length) or b"{}"))
                if reply == "hang":
                    over.wait(20)
                    reply = "drop"
                if isinstance(reply, str):
                    if reply == "reset":
                        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
                        self.wfile.flush()
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.connection.close()
                    self.close_connection = True
                    return
                code, headers, payload = reply
                self.send_response(code)
                for name, value in ({"Content-Type": "application/json"} | headers).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def do_GET(self) -> None:
                self.do_POST()

            def log_message(self, *_: object) -> None:
                pass

        server = _Server(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/v1"

    try:
        yield start
    finally:
        over.set()
        for server in servers:
            server.shutdown()
            server.server_close()
