#!/bin/bash
# Compares server libraries by the CPU time that a hello takes, and the whole runtime with them. Needs wrk.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3.11 -m venv "$work/venv"
bin=$work/venv/bin
"$bin/pip" install --quiet uvicorn httptools uvloop h11 hypercorn gunicorn granian aiohttp
cd "$here"

# CPU ticks and memory of a process and its descendants.
tree() {
	echo "$1"
	for child in $(pgrep -P "$1"); do tree "$child"; done
}
ticks() { for pid in $(tree "$1"); do cat "/proc/$pid/stat"; done | sed 's/.*) //' | awk '{ sum += $12 + $13 } END { print sum }'; }
memory() { for pid in $(tree "$1"); do cat "/proc/$pid/status"; done | awk '/^VmRSS/ { sum += $2 } END { printf "%d", sum / 1024 }'; }

measure() {
	name=$1
	shift
	"$@" >"$work/log" 2>&1 &
	pid=$!
	for _ in $(seq 300); do curl -sf -o /dev/null http://127.0.0.1:9301/ && break; sleep 0.1; done
	wrk -t1 -c32 -d2s http://127.0.0.1:9301/ >/dev/null
	before=$(ticks $pid)
	wrk -t1 -c32 -d8s http://127.0.0.1:9301/ >"$work/wrk"
	after=$(ticks $pid)
	requests=$(awk '/requests in/ { print $1 }' "$work/wrk")
	rate=$(awk '/Requests\/sec/ { print $2 }' "$work/wrk")
	awk -v n="$name" -v t=$((after - before)) -v hz="$(getconf CLK_TCK)" -v r="$requests" -v s="$rate" -v m="$(memory $pid)" \
		'BEGIN { printf "| %s | %.0f | %.0f | %d |\n", n, t / hz / r * 1e6, s, m }'
	kill $pid
	wait $pid || true
}

echo "| server | µs CPU a request | requests/s | MB |"
echo "| --- | --- | --- | --- |"
asgi=(apps:asgi --port 9301 --ws none --lifespan off --no-access-log)
measure "uvicorn, httptools, uvloop" "$bin/uvicorn" "${asgi[@]}" --http httptools --loop uvloop
measure "uvicorn, httptools, asyncio" "$bin/uvicorn" "${asgi[@]}" --http httptools --loop asyncio
measure "uvicorn, h11, uvloop" "$bin/uvicorn" "${asgi[@]}" --http h11 --loop uvloop
measure "hypercorn" "$bin/hypercorn" apps:asgi -b 127.0.0.1:9301
measure "gunicorn, gthread" "$bin/gunicorn" apps:wsgi -b 127.0.0.1:9301 -k gthread --threads 32
measure "granian" "$bin/granian" --interface asgi apps:asgi --port 9301 --no-ws
measure "aiohttp" "$bin/python" apps.py

mkdir -p "$work/root/code"
runtime=(env SLESS_ROOT="$work/root" SLESS_TERMINATION_LOG="$work/last" SLESS_VENDOR="$(make --silent --no-print-directory -C "$here/../.." vendor)" PORT=9301 "$here/../sless/start")
printf 'def handle(event, context):\n    return "hello"\n' >"$work/root/code/handler.py"
measure "**this runtime**, sync handler" "${runtime[@]}"
printf 'async def handle(event, context):\n    return "hello"\n' >"$work/root/code/handler.py"
measure "**this runtime**, async handler" "${runtime[@]}"
