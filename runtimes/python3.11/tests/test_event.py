"""From a request to its event."""

import unittest

import paths  # noqa: F401
from _sless.event import body_text, canonical, http_event


def request(**changes):
    """A request as the server describes it."""
    base = {"method": "GET", "path": "/", "query": "", "protocol": "HTTP/1.1", "peer": "10.0.0.1", "headers": []}
    return {**base, **changes}


class Event(unittest.TestCase):
    def test_time_and_place(self):
        event = http_event(request(headers=[("x-forwarded-for", " 192.0.2.1 , 10.0.0.9"), ("user-agent", "u")]), "id", b"", now=1767366245.9)
        self.assertEqual(
            event["requestContext"],
            {
                "requestId": "id",
                "httpMethod": "GET",
                "path": "/",
                "protocol": "HTTP/1.1",
                "requestTime": "02/Jan/2026:15:04:05 +0000",
                "requestTimeEpoch": 1767366245,
                "identity": {"sourceIp": "192.0.2.1", "userAgent": "u"},
            },
        )

    def test_peer_without_forwarding(self):
        for headers in ([], [("x-forwarded-for", "")]):
            event = http_event(request(headers=headers), "id", b"")
            self.assertEqual(event["requestContext"]["identity"]["sourceIp"], "10.0.0.1")

    def test_query(self):
        for query, last, every in (
            ("", {}, {}),
            ("a=1&a=2&b", {"a": "2", "b": ""}, {"a": ["1", "2"], "b": [""]}),
            ("&&=v&", {"": "v"}, {"": ["v"]}),
            ("a=%zz%C3%BC+%2B", {"a": "%zzü +"}, {"a": ["%zzü +"]}),
            ("a=%ff", {"a": "\ufffd"}, {"a": ["\ufffd"]}),
            ("a;b=1", {"a;b": "1"}, {"a;b": ["1"]}),
            ("__proto__=1", {"__proto__": "1"}, {"__proto__": ["1"]}),
        ):
            event = http_event(request(query=query), "id", b"")
            self.assertEqual((event["queryStringParameters"], event["multiValueQueryStringParameters"]), (last, every), query)
            self.assertEqual(event["rawQueryString"], query)

    def test_names_of_headers(self):
        for name, want in (("content-TYPE", "Content-Type"), ("x-request-id", "X-Request-Id"), ("a--b", "A--B"), ("etag", "Etag"), ("x_y", "X_y")):
            self.assertEqual(canonical(name), want)

    def test_body(self):
        for body, want in (
            (b"", ("", False)),
            ("grüße\r\n".encode(), ("grüße\r\n", False)),
            (b"\xef\xbb\xbfx", ("\ufeffx", False)),
            (b"\xff", ("/w==", True)),
            (b"\xed\xa0\x80", ("7aCA", True)),
        ):
            self.assertEqual(body_text(body), want)


if __name__ == "__main__":
    unittest.main()
