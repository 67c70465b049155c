# The scenario of scenario_test.go for the Python SDK: python3 scenario_async.py. The test also runs it without asyncio.
import asyncio
import base64
import json
import os

from hortus import AsyncHortus, HortusError

label = os.environ["SCENARIO"]


def text(value):
    return json.dumps(value, ensure_ascii=False)


def show(*words):
    print("".join(str(w).lower() if isinstance(w, bool) else str(w) for w in words))


async def failure(what, call):
    try:
        await call()
        show(what, ": no error")
    except HortusError as e:
        show(what, ": ", e.kind, ", gone" if e.status == 410 else "", ", hint ", e.hint != "")


async def stopped(sandbox):
    """Stops a command when it has started: without asyncio by an exception, with it by the end of the task."""

    def stop(_):
        raise HortusError("canceled", "stopped")

    if "asyncio" not in globals():
        return sandbox.run("echo started; sleep 1000", on_stdout=stop)
    task = asyncio.ensure_future(sandbox.run("echo started; sleep 1000", on_stdout=lambda _: task.cancel()))
    try:
        await task
    except asyncio.CancelledError:
        raise HortusError("canceled", "stopped") from None


async def main():
    hortus = AsyncHortus()
    sandbox = await hortus.sandboxes.create({"isolation": "container", "labels": {"scenario": label}}, idempotency_key=label)
    again = await hortus.sandboxes.create({"isolation": "container", "labels": {"scenario": label}}, idempotency_key=label)
    show("created once: ", sandbox.id == again.id, ", ", (await sandbox.info())["state"])

    await sandbox.write_file("in/words.txt", "pear\näpple\n")
    show("read: ", text(await sandbox.read_text("in/words.txt")))
    await sandbox.write_file("in/large", (bytes([i]) * 100_000 for i in range(8)))
    size = 0
    async for piece in sandbox.read_stream("in/large"):
        size += len(piece)
    show("streamed: ", size, ", ", (await sandbox.stat("in/large"))["size"])
    await sandbox.make_dir("in/dir")
    await sandbox.make_dir("in/dir")
    await sandbox.move("in/large", "in/dir/moved")
    show("list: ", ", ".join(sorted("%(type)s %(path)s" % f for f in await sandbox.list_dir("in", depth=2))))
    await sandbox.remove("in/dir")

    result = await sandbox.run(["sort", "words.txt"], dir="in", env={"LC_ALL": "C"})
    show("run: ", text(result.stdout), ", exit ", result.exit_code)
    out, err = [], []
    failed = await sandbox.run(
        "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; echo problem >&2; exit 3", on_stdout=out.append, on_stderr=err.append
    )
    out, err = "".join(out), "".join(err)
    show("streams: ", len(out.split("\n")), " lines, ", out == failed.stdout and err == failed.stderr, ", ", text(err), ", exit ", failed.exit_code, ", lost ", failed.lost_bytes)
    show("input: ", text((await sandbox.run(["tr", "a-z", "A-Z"], stdin="grüße\n")).stdout))
    cat = await sandbox.start(["cat"], stdin=True)
    await cat.write("one ")
    await cat.write("two", close=True)
    show("written: ", text((await cat.wait()).stdout), ", ", (await cat.info())["state"])
    sleeper = await sandbox.start(["sleep", "1000"])
    killed = await sleeper.kill()
    show("killed: ", killed["exec"]["state"], " ", killed["exec"]["exit"]["signal"])
    await failure("stopped", lambda: stopped(sandbox))
    last = sandbox.command((await sandbox.commands())[0]["id"])
    await last.wait()
    show("its end: ", (await last.info())["exit"]["signal"])
    show("commands: ", len(await sandbox.commands()))

    await sandbox.run_code("x = 20")
    code = await sandbox.run_code("print('hello')\nx + 1")
    show("code: ", code.text, " ", text(code.stdout))
    show("code fails: ", (await sandbox.run_code("1 / 0")).error.name)

    fork = await sandbox.fork({"count": 2})
    await sandbox.write_file("in/words.txt", "changed")
    show("fork: ", len(fork.sandboxes), " of ", len(fork.result["children"]), ", ", text(await fork.sandboxes[0].read_text("in/words.txt")))
    show("forks: ", len(await hortus.sandboxes.list(forks_of=sandbox.id)), ", labels: ", len(await hortus.sandboxes.list(labels={"scenario": label})))
    for child in fork.sandboxes:
        await child.kill()
    snapshot = await sandbox.snapshot({"name": label})
    next = await hortus.sandboxes.create({"template": label, "isolation": "container"})
    show("snapshot: ", snapshot["name"] == label, ", ", text(await next.read_text("in/words.txt")))
    await next.kill()
    show("removed: ", (await hortus.snapshots.remove(snapshot["id"]))["state"])
    try:
        show("pause: ", (await sandbox.pause())["state"], ", ", (await sandbox.resume())["state"])
    except HortusError as e:
        show("pause: ", e.kind)

    run = await hortus.runs.create({"request": "Write a Python script that prints the first 5 primes", "isolation": "container"})
    events, output = [], b""
    async for e in hortus.runs.events(run["id"]):
        events.append(e)
        if e["type"] == "output":
            output += base64.b64decode(e["data"]["data"])
    kinds = [e["type"] for e in events if e["type"] in ("created", "plan", "code", "verdict")]
    show("run: ", " ".join(kinds), ", ", events[-1]["data"]["outcome"], ", ", text(output.decode()))
    show("numbers: ", all(a["seq"] < b["seq"] for a, b in zip(events, events[1:])))
    seen = []
    async for e in hortus.tasks.events(run["id"]):
        seen.append(e["seq"])
        if len(seen) == 3:
            break
    async for e in hortus.tasks.events(run["id"], seen[2]):
        seen.append(e["seq"])
    show("resumed: ", seen == [e["seq"] for e in events])
    late = 0
    async for _ in hortus.tasks.events(run["id"], seen[-1]):
        late += 1
    show("after the last: ", late)

    repo = {"url": "https://127.0.0.1:1/none.git", "author": {"name": "Ada", "email": "ada@example.org"}}
    plan = await hortus.plans.create({"task": {"request": "1. Fix it", "repo": repo}})
    steps = []
    async for e in hortus.plans.events(plan["id"]):
        steps.append(e["type"])
    ended = await hortus.plans.get(plan["id"])
    listed = [await hortus.plans.list(all=True), await hortus.plans.list(), await hortus.plans.workstreams()]
    among = ["true" if any(p["id"] == plan["id"] for p in l) else "false" for l in listed]
    show("plan: ", steps[0], " ", steps[-1], ", ", ended["state"], ", ", ended["outcome"], ", listed ", ",".join(among))
    await failure("no plan", lambda: hortus.plans.cancel("p0000000000000000000"))

    async def new(**options):
        AsyncHortus(**options)

    await failure("not found", lambda: hortus.sandboxes.get("i0000"))
    await failure("no file", lambda: sandbox.read_file("none"))
    await failure("invalid", lambda: hortus.sandboxes.create({"isolation": "nosuch"}))
    await failure("no ID", lambda: hortus.tasks.get(".."))
    await failure("unauthenticated", lambda: AsyncHortus(api_key="e2b_" + "0" * 40).info())
    await failure("no key", lambda: new(api_key=""))
    await failure("no URL", lambda: new(url="ftp://x"))
    show("kill: ", (await sandbox.kill())["proof"]["left"], " left")
    await failure("ended", lambda: sandbox.run(["true"]))
    hortus.close()


asyncio.run(main())
