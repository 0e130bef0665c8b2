"""uvicorn's HTTP protocol, made firm where it trusts its client."""

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from . import problem

_HEAD_LIMIT = 256 << 10


class Protocol(HttpToolsProtocol):
    """Bounds the size of a request's head, and takes a request that asks for an upgrade as one that does not.

    By itself it takes a head of any size into memory, and loses the body of a request with an Upgrade header.
    """

    _in_head = True
    _head_size = 0

    def data_received(self, data: bytes) -> None:
        """Called with what came over the connection."""
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._parse_without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self.send_400_response("The request is not HTTP.")
        if self._in_head:
            self._head_size += len(data)
            if self._head_size > _HEAD_LIMIT and not self.transport.is_closing():
                self._refuse_head()

    def on_headers_complete(self) -> None:
        """Called by the parser at the end of a head."""
        self._in_head, self._head_size = False, 0
        if not self.parser.should_upgrade():
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Called by the parser with a part of the body."""
        if not self.parser.should_upgrade():
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Called by the parser at the end of a request."""
        if not self.parser.should_upgrade():
            self._in_head = True
            super().on_message_complete()

    def _parse_without_upgrade(self, rest: bytes) -> None:
        """Starts again with the head less its wish for an upgrade, which ended the parser's work, and what follows it."""
        method = self.parser.get_method()
        if method == b"CONNECT":
            self.send_400_response("CONNECT is not answered here.")
            return
        lines = [b"%s %s HTTP/%s" % (method, self.url, self.parser.get_http_version().encode())]
        for name, value in self.headers:
            if name == b"connection":
                tokens = [token for token in value.split(b",") if token.strip().lower() != b"upgrade"]
                value = b",".join(tokens)
            if name != b"upgrade" and value:
                lines.append(name + b": " + value)
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.data_received(b"\r\n".join(lines) + b"\r\n\r\n" + rest)

    def _refuse_head(self) -> None:
        why = problem.HEAD_TOO_LARGE
        body = why.body("")
        headers = [*why.headers(), (b"content-length", str(len(body)).encode())]
        lines = [b"HTTP/1.1 431 Request Header Fields Too Large", *(b": ".join(header) for header in headers)]
        self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + body)
        self.transport.close()
