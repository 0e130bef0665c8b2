"""Frames between the server and its worker, over one stream socket.

A frame is its length, a kind, the number of the call, the length of the head, the head (a JSON object) and the body
(bytes). The server sends CALL, then NEXT for each further part of a stream, or CANCEL once. The worker sends LOADED or
FAILED once, and for each call one final frame: ANSWER without `stream`, END or ERROR. An ANSWER with `stream` is
followed by one CHUNK or final frame for each NEXT: the server pulls, so that a slow client slows the handler.
"""

import json
import struct
from typing import Iterator, NamedTuple

CALL, NEXT, CANCEL = 1, 2, 3
LOADED, FAILED, ANSWER, CHUNK, END, ERROR = 11, 12, 13, 14, 15, 16

_PREFIX = struct.Struct("!IBII")
_AFTER_LENGTH = _PREFIX.size - 4


class Frame(NamedTuple):
    """One frame, decoded."""

    kind: int
    call: int
    head: dict
    body: bytes

    @property
    def final(self) -> bool:
        """Whether it is the last word about its call."""
        return is_final(self.kind, self.head)


def is_final(kind: int, head: dict | None) -> bool:
    """Whether a frame of this kind and head is the last one of its call."""
    return kind in (END, ERROR) or (kind == ANSWER and not (head or {}).get("stream"))


def encode(kind: int, call: int, head: dict | None = None, body: bytes = b"") -> bytes:
    """The bytes of one frame."""
    text = json.dumps(head).encode() if head else b""
    return b"".join((_PREFIX.pack(_AFTER_LENGTH + len(text) + len(body), kind, call, len(text)), text, body))


class Decoder:
    """Cuts what a socket delivers into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Takes more bytes and yields each frame that is complete."""
        self._buffer += data
        while (frame := self._take()) is not None:
            yield frame

    def _take(self) -> Frame | None:
        buffer = self._buffer
        if len(buffer) < _PREFIX.size:
            return None
        length, kind, call, head_length = _PREFIX.unpack_from(buffer)
        end = 4 + length
        if len(buffer) < end:
            return None
        body_at = _PREFIX.size + head_length
        head = json.loads(buffer[_PREFIX.size : body_at]) if head_length else {}
        body = bytes(buffer[body_at:end])
        del buffer[:end]
        return Frame(kind, call, head, body)
