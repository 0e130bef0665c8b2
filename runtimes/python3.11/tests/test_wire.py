"""Frames survive however the socket cuts them."""

import unittest

import paths  # noqa: F401  (first: it sets the search path)
from _sless import wire


class Frames(unittest.TestCase):
    frames = [
        wire.Frame(wire.CALL, 1, {"mode": "http", "text": "grüße"}, b"\x00" * 1000),
        wire.Frame(wire.NEXT, 1, {}, b""),
        wire.Frame(wire.CHUNK, 2**32 - 1, {}, bytes(range(256))),
        wire.Frame(wire.END, 7, {}, b""),
    ]

    def test_any_cut_gives_the_same_frames(self):
        data = b"".join(wire.encode(*frame) for frame in self.frames)
        for size in (1, 2, 7, 13, 100, len(data)):
            decoder = wire.Decoder()
            got = [frame for at in range(0, len(data), size) for frame in decoder.feed(data[at : at + size])]
            self.assertEqual(got, self.frames, f"cut every {size} bytes")

    def test_final(self):
        for kind, head, final in (
            (wire.ANSWER, {"status": 200}, True),
            (wire.ANSWER, {"status": 200, "stream": True}, False),
            (wire.CHUNK, None, False),
            (wire.END, None, True),
            (wire.ERROR, {"error": "x"}, True),
        ):
            self.assertEqual(wire.is_final(kind, head), final, (kind, head))


if __name__ == "__main__":
    unittest.main()
