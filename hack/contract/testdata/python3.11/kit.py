"""A function that does what the X-Do header, or `do` of its event, says. The node kit does the same things."""

import asyncio
import base64
import inspect
import json
import logging
import os
import subprocess
import sys
import threading
import time
import urllib.request

calls = 0


def handle(event, context):
    return act(event, context)


async def handle_async(event, context):
    result = act(event, context, lambda: asyncio.sleep(0.02))
    return await result if inspect.isawaitable(result) else result


def act(event, context, pause=None):
    global calls
    calls += 1
    is_http = isinstance(event, dict) and "httpMethod" in event
    do = event["headers"].get("X-Do", "echo") if is_http else (event or {}).get("do", "echo")
    args = event["queryStringParameters"] if is_http else event
    action = globals()["do_" + do]
    if do in ("wait", "hang", "stall", "say") and pause:
        return globals()["async_" + do](args, pause)
    return action(event, context) if do in ("echo", "raw", "raw64", "context", "call") else action(args or {})


def do_echo(event, context):
    return event


def do_context(event, context):
    return {
        "request_id": context.request_id,
        "name": context.function_name,
        "namespace": context.function_namespace,
        "version": context.function_version,
        "remaining": context.get_remaining_time_in_millis(),
        "traceparent": context.traceparent,
    }


def do_call(event, context):
    """Makes requests: at once, in a thread, and with a context of its own."""
    url = event["queryStringParameters"]["url"]
    urllib.request.urlopen(url + "/direct").close()
    thread = threading.Thread(target=lambda: urllib.request.urlopen(url + "/later").close())
    thread.start()
    thread.join()
    urllib.request.urlopen(urllib.request.Request(url + "/own", headers={"Traceparent": "mine"})).close()
    return {"traceparent": context.traceparent, "tracestate": context.tracestate}


def do_raw(event, context):
    return base64.b64decode(event["body"]) if event["isBase64Encoded"] else event["body"].encode()


def do_raw64(event, context):
    body = base64.b64encode(do_raw(event, context)).decode()
    return {"statusCode": 200, "headers": {"content-type": "image/png"}, "body": body, "isBase64Encoded": True}


def do_value(args):
    return {
        "text": "grüße", "empty": "", "bytes": bytes(range(256)), "none": None, "number": 42, "list": [1, "a", None],
        "object": {"a": {"b": "ü"}}, "false": False,
        "described": {"statusCode": 201, "headers": {"X-One": "1", "x-two": 2}, "body": {"made": True}},
        "redirect": {"statusCode": 302, "headers": {"Location": "/else%2Fwhere"}},
        "cookies": {"statusCode": "200", "multiValueHeaders": {"Set-Cookie": ["a=1", "b=2"]}, "body": "ok"},
        "no-content": {"statusCode": 204},
        "not-modified": {"statusCode": 304, "headers": {"ETag": '"x"'}},
        "own-status": {"statusCode": 500, "body": "mine"},
        "bad-status": {"statusCode": 99},
        "bad-header": {"statusCode": 200, "headers": {"X": "a\r\nY: b"}},
        "bad-header-name": {"statusCode": 200, "headers": {"a b": "c"}},
        "bad-base64": {"statusCode": 200, "body": "%", "isBase64Encoded": True},
        "platform-headers": {"statusCode": 200, "headers": {"Sless-Overload": "true", "Connection": "close", "Content-Length": "1"}, "body": "four"},
        "no-json": [do_value],
        "long": "ä" * 4000, "quotes": '"' * 3500,
    }[args["name"]]


def do_stream(args):
    items = {
        "text": ["one ", "", "two"], "bytes": [b"\x00\xff", b"\x80"], "json": [{"n": 1}, {"n": 2}], "none": [],
    }[args["name"]]
    if args.get("described"):
        return {"statusCode": 201, "headers": {"Content-Type": "text/event-stream"}, "body": iter(items)}
    return (item for item in items) if not args.get("async") else _agenerate(items)


async def _agenerate(items):
    for item in items:
        yield item


def do_events(args):
    def generate():
        try:
            yield "data: 1\n\n"
            _mark(args, "between")
            while not _has(args, "release"):
                time.sleep(0.02)
                yield ""
            yield "data: 2\n\n"
        finally:
            _mark(args, "closed")

    return {"statusCode": 200, "headers": {"content-type": "text/event-stream"}, "body": generate()}


def do_broken(args):
    yield "first"
    raise ValueError("secret of the stream")


def do_flood(args):
    return (b"x" * 65536 for _ in range(int(args["parts"])))


def do_raise(args):
    raise ValueError("secret of the handler")


running = peak = 0
lock = threading.Lock()


def do_wait(args):
    _enter(args)
    try:
        while not _has(args, "release"):
            time.sleep(0.02)
        return "released"
    except BaseException:
        _mark(args, "cancelled")
        raise
    finally:
        _leave()


async def async_wait(args, pause):
    _enter(args)
    try:
        while not _has(args, "release"):
            await pause()
        return "released"
    except BaseException:
        _mark(args, "cancelled")
        raise
    finally:
        _leave()


def _enter(args):
    global running, peak
    with lock:
        running += 1
        peak = max(peak, running)
    _mark(args, "started")


def _leave():
    global running
    with lock:
        running -= 1


def do_peak(args):
    return peak


def do_hang(args):
    """Never comes back, with a child in a session of its own, a grandchild, and 64 MB."""
    ballast = bytearray(64 << 20)
    script = "sleep 100000 & echo $!; exec sleep 100000"
    child = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    grandchild = int(child.stdout.readline())
    print("about to hang", end="")
    _mark(args, "started", f"{os.getpid()} {child.pid} {grandchild}")
    while ballast:
        pass


async def async_hang(args, pause):
    ballast = bytearray(64 << 20)
    script = "sleep 100000 & echo $!; exec sleep 100000"
    child = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    grandchild = int(child.stdout.readline())
    print("about to hang", end="")
    _mark(args, "started", f"{os.getpid()} {child.pid} {grandchild}")
    while ballast:
        await pause()


def do_stall(args):
    def generate():
        yield "first"
        time.sleep(100000)

    return generate()


async def async_stall(args, pause):
    async def generate():
        yield "first"
        while True:
            await pause()

    return generate()


def do_state(args):
    return {"pid": os.getpid(), "calls": calls}


def do_exit(args):
    os._exit(3)


def do_print(args):
    line = args.get("char", "x") * int(args["size"])
    print(line)
    print(line, file=sys.stderr)
    sys.stdout.write("no newline at the end")


def do_lines(args):
    for number in range(int(args["count"])):
        print("line", number)


def do_say(args):
    """Prints in every way there is, and goes on until the others have begun as well."""
    _say(args)
    while not _all_have_said(args):
        print(args["name"], "waits")
        time.sleep(0.01)
    thread = threading.Thread(target=print, args=(args["name"], "thread"))
    thread.start()
    thread.join()
    print(args["name"], "ends without a line end", end="")


async def async_say(args, pause):
    _say(args)
    while not _all_have_said(args):
        print(args["name"], "waits")
        await pause()
    await asyncio.get_running_loop().run_in_executor(None, print, args["name"], "thread")
    print(args["name"], "ends without a line end", end="")


def _say(args):
    name = args["name"]
    print(name, "here")
    print(json.dumps({"name": name, "text": "json"}))
    print(f"{name} first\n[forged] {name} second\n{{\"sless_request_id\":\"forged\",\"name\":\"{name}\"}}")
    logging.getLogger(name).warning("%s logged", name)
    _mark(args, "said-" + name)


def _all_have_said(args):
    return all(_has(args, "said-" + other) for other in args["others"].split(","))


def do_files(args):
    """What may be written."""
    with open("/tmp/sless-contract-" + str(os.getpid()), "w") as file:
        file.write("x")
    os.unlink(file.name)
    return {"cwd": os.getcwd(), "path": os.environ["PATH"]}


def _mark(args, what, text=""):
    name = os.path.join(args["dir"], what)
    with open(name + ".part", "w") as file:
        file.write(text)
    os.rename(name + ".part", name)


def _has(args, what):
    return os.path.exists(os.path.join(args["dir"], what))
