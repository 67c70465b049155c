# The calls of waiting_test.go with the Python SDK: python3 waiting_async.py
import asyncio

from hortus import AsyncHortus, HortusError


def told(w):
    print("waits for %s: %s" % (w["cause"], w["why"]))


async def main():
    hortus = AsyncHortus()
    sandbox = await hortus.sandboxes.create(on_wait=told)
    print("created %s" % sandbox.id)
    fork = await sandbox.fork(on_wait=told)
    print("forked %s" % fork.sandboxes[0].id)
    print("resumed %s" % (await sandbox.resume(on_wait=told))["state"])
    print("not told %s" % (await hortus.sandboxes.create()).id)
    print("at once %s" % (await hortus.sandboxes.create({"template": "at-once"}, on_wait=told)).id)
    for template in ("in-vain", "cut"):
        try:
            await hortus.sandboxes.create({"template": template}, on_wait=told)
        except HortusError as e:
            print("%s: %s %d %d" % (template, e.kind, e.status, e.retry_after_ms))
    print("events %s" % [e["seq"] async for e in hortus.tasks.events("t1")])
    try:
        async for _ in AsyncHortus(patience=0.1).tasks.events("t2"):
            pass
    except HortusError as e:
        print("away: %s %d" % (e.kind, e.status))
    try:
        async for _ in hortus.tasks.events("t3"):
            pass
    except HortusError as e:
        print("gone: %s %d" % (e.kind, e.status))


asyncio.run(main())
