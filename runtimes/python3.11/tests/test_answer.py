"""From a returned value to its answer."""

import datetime
import unittest

import paths  # noqa: F401
from _sless.answer import BadAnswer, chunk_bytes, chunk_type, http_answer, is_stream, value_json


class Answers(unittest.TestCase):
    def test_headers_of_both_kinds(self):
        answer = http_answer(
            {
                "statusCode": 200,
                "headers": {"x-a": "single", "X-B": 7, "x-c": True, "x-d": b"raw", "Transfer-Encoding": "chunked", "sless-x": "no"},
                "multiValueHeaders": {"X-A": ["1", "2"]},
            }
        )
        self.assertEqual(answer.headers, [("X-A", "1"), ("X-A", "2"), ("X-B", "7"), ("X-C", "true"), ("X-D", "raw")])

    def test_content_type_is_the_handlers_when_it_gives_one(self):
        self.assertEqual(http_answer({"statusCode": 200, "headers": {"content-type": "a/b"}, "body": {}}).headers, [("Content-Type", "a/b")])
        self.assertEqual(http_answer({"statusCode": 200, "body": [1]}).headers, [("Content-Type", "application/json")])
        self.assertEqual(http_answer({"statusCode": 200, "body": "YQ==", "isBase64Encoded": True}).body, b"a")

    def test_refused(self):
        for value in (
            {"statusCode": None},
            {"statusCode": True},
            {"statusCode": 199},
            {"statusCode": "abc"},
            {"statusCode": 200, "headers": ["a"]},
            {"statusCode": 200, "headers": {"a:": "b"}},
            {"statusCode": 200, "headers": {"a": "b\n"}},
            {"statusCode": 200, "headers": {1: "b"}},
            {"statusCode": 200, "body": 5, "isBase64Encoded": True},
            {"statusCode": 200, "body": "a", "isBase64Encoded": True},
            datetime.datetime(2026, 1, 1),
            float("nan"),
            [{1, 2}],
            {"x": (item for item in ())},
        ):
            with self.assertRaises(BadAnswer, msg=repr(value)):
                http_answer(value)

    def test_json(self):
        loop = []
        loop.append(loop)
        with self.assertRaises(BadAnswer):
            value_json(loop)
        self.assertEqual(value_json({"ü": (1, b"\xff", "\ud800")}), b'{"\\u00fc": [1, "/w==", "\\ud800"]}')
        self.assertEqual(value_json({"ü": 1}), '{"ü":1}'.encode())

    def test_streams(self):
        async def items():
            yield 1

        for value, stream in ((iter([]), True), ((i for i in ()), True), (items(), True), ([], False), ("x", False), ({}, False), (b"", False)):
            self.assertEqual(is_stream(value), stream, repr(value))
        for item, data, kind in (("ü", b"\xc3\xbc", "text/plain; charset=utf-8"), (memoryview(b"a"), b"a", "application/octet-stream"), ({"a": 1}, b'{"a":1}\n', "text/plain; charset=utf-8")):
            self.assertEqual((chunk_bytes(item), chunk_type(item)), (data, kind))


if __name__ == "__main__":
    unittest.main()
