"""The least that a handler can do, for each kind of server that servers.sh compares."""

import asyncio


async def asgi(scope, receive, send):
    """For ASGI servers."""
    await receive()
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"5")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"hello"})


def wsgi(environ, start_response):
    """For WSGI servers."""
    environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"hello"]


async def aiohttp_main(port):
    """aiohttp's own server."""
    from aiohttp import web

    async def hello(request):
        await request.read()
        return web.Response(body=b"hello", content_type="text/plain")

    runner = web.ServerRunner(web.Server(hello))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(aiohttp_main(9301))
