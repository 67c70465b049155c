# The calls of hostile_test.go with the Python SDK: python3 hostile.py
import asyncio
import os
import sys

from hortus import AsyncHortus, Hortus, HortusError

host = os.environ["HORTUS_HOST"]


def all(items):
    for _ in items:
        pass


calls = {
    "info": lambda h: h.info(),
    "list": lambda h: h.sandboxes.list(),
    "events": lambda h: all(h.tasks.events("t1")),
    "sandbox": lambda h: h.sandboxes.get("i1"),
    "file": lambda h: h.sandboxes.get("i1").read_file("x"),
    "stream": lambda h: all(h.sandboxes.get("i1").read_stream("x")),
    "output": lambda h: h.sandboxes.get("i1").command("x1").wait(),
    "code": lambda h: h.sandboxes.get("i1").run_code("1"),
}
for test in sys.argv[1:]:
    name, call = test.split("/")
    try:
        calls[call](Hortus("%s/%s" % (host, name), patience=0.2))
        print("%s: no error" % test)
    except HortusError as e:
        print("%s: %s: %s" % (test, e.kind, e))
for call in ("info", "events"):
    try:
        calls[call](Hortus(host + "/silent", timeout=0.02, patience=0.2))
    except HortusError as e:
        print("silent/%s: %s" % (call, e.kind))


async def read():
    async for _ in AsyncHortus(host + "/silent").tasks.events("t1"):
        pass


async def main():
    task = asyncio.ensure_future(read())
    await asyncio.sleep(0.05)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        print("canceled: canceled")


asyncio.run(main())
