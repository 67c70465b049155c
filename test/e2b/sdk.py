"""Uses E2B's SDK for Python as its users do, unmodified: it is configured by its environment.

Each function below prints its name when it has passed. TestPython runs it.
"""

import sys
import time

from e2b import (
    CommandExitException,
    NotFoundException,
    Sandbox,
    SandboxQuery,
    SandboxState,
    Template,
    TimeoutException,
    Volume,
)


def raises(kind, call):
    try:
        call()
    except kind as e:
        return e
    raise AssertionError(f"no {kind.__name__}")


def wait(what, ok):
    end = time.monotonic() + 60
    while not ok():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def create_list_and_kill():
    box = Sandbox.create(timeout=300, metadata={"of": "python"}, envs={"WHO": "me"})
    info = box.get_info()
    assert info.state == SandboxState.RUNNING and info.metadata == {"of": "python"}, info
    pages = Sandbox.list(SandboxQuery(metadata={"of": "python"}), limit=1)
    found = []
    while pages.has_next:
        found += [b.sandbox_id for b in pages.next_items()]
    assert found == [box.sandbox_id], found
    assert box.commands.run("echo $WHO").stdout == "me\n"
    assert box.kill() and not box.kill() and not box.is_running()
    raises(NotFoundException, lambda: Sandbox.connect(box.sandbox_id))


def commands(box):
    said = []
    out = box.commands.run("echo out; echo err >&2", on_stdout=said.append)
    assert (out.stdout, out.stderr, said) == ("out\n", "err\n", ["out\n"]), (out, said)
    e = raises(CommandExitException, lambda: box.commands.run("exit 7"))
    assert e.exit_code == 7
    raises(TimeoutException, lambda: box.commands.run("sleep 60", timeout=1))
    cat = box.commands.run("head -n 1", background=True, stdin=True)
    assert cat.pid in [p.pid for p in box.commands.list()]
    box.commands.send_stdin(cat.pid, "word\n")
    assert cat.wait().stdout == "word\n"
    sleep = box.commands.run("sleep 600", background=True)
    assert box.commands.connect(sleep.pid).kill()
    raises(CommandExitException, sleep.wait)


def files(box):
    box.files.write("dir/a", "text")
    box.files.write("dir/b", b"\0\xff" * 500_000)
    assert box.files.read("dir/a") == "text"
    assert box.files.read("dir/b", format="bytes") == b"\0\xff" * 500_000
    assert sorted(e.name for e in box.files.list("dir", depth=None)) == ["a", "b"]
    assert box.files.rename("dir/a", "dir/c").name == "c"
    assert box.files.exists("dir/c") and not box.files.exists("dir/a")
    box.files.remove("dir/b")
    raises(NotFoundException, lambda: box.files.read("dir/b"))
    assert box.files.read("/proc/sys/kernel/ostype").strip() == "Linux"
    watch = box.files.watch_dir("dir", recursive=True)
    box.files.write("dir/watched", "x")
    seen = []

    def saw():
        seen.extend(e.name for e in watch.get_new_events())
        return "watched" in seen

    wait("the watch", saw)
    watch.stop()


def terminal(box):
    said = []
    pty = box.pty.create(size=__import__("e2b").PtySize(rows=24, cols=80))
    box.pty.send_stdin(pty.pid, b"echo $((6*7)); exit\n")
    pty.wait(on_pty=said.append)
    assert b"42" in b"".join(said), said


def pause_and_connect(box):
    box.commands.run("echo before >/tmp/before")
    running = box.commands.run("while :; do sleep 1; done", background=True)
    running.disconnect()
    box.pause()
    assert Sandbox.connect(box.sandbox_id, timeout=300).commands.run("cat /tmp/before").stdout == "before\n"
    assert running.pid in [p.pid for p in box.commands.list()]


def snapshot_and_fork(box):
    box.files.write("/tmp/kept", "kept")
    of = box.create_snapshot().snapshot_id
    another = Sandbox.create(of, timeout=300)
    assert another.files.read("/tmp/kept") == "kept"
    another.kill()
    child = box.fork()[0]
    child = getattr(child, "sandbox", child)
    assert child.files.read("/tmp/kept") == "kept"
    child.kill()
    Sandbox.delete_snapshot(of)


def timeout():
    box = Sandbox.create(timeout=300)
    box.set_timeout(1)
    wait("the end of its time", lambda: not box.is_running())
    box = Sandbox.create(timeout=300, lifecycle={"on_timeout": {"action": "pause"}})
    box.set_timeout(0)
    wait("its pause", lambda: box.get_info().state == SandboxState.PAUSED)
    box.kill()


def tags():
    name = "python-tags"
    Template.build(Template().from_template("base").run_cmd("echo one >/home/user/build"), f"{name}:v1")
    given = Template.assign_tags(f"{name}:v1", ["stable"])
    have = {t.tag: str(t.build_id) for t in Template.get_tags(name)}
    assert have == {"v1": str(given.build_id), "stable": str(given.build_id)}, (have, given)
    box = Sandbox.create(f"{name}:stable", timeout=300)
    assert box.files.read("/home/user/build") == "one\n"
    box.kill()
    Template.remove_tags(name, ["v1", "stable"])
    assert not Template.exists(name)


def volumes():
    volume = Volume.create("python-volume")
    volume.write_file("/a", "text")
    assert volume.read_file("/a") == "text"
    assert [v.volume_id for v in Volume.list()] == [volume.volume_id]
    Volume.destroy(volume.volume_id)


if __name__ == "__main__":
    box = Sandbox.create(timeout=600)
    for feature in [commands, files, terminal, pause_and_connect, snapshot_and_fork]:
        feature(box)
        print(feature.__name__, flush=True)
    assert box.kill()
    for feature in [create_list_and_kill, timeout, tags, volumes]:
        feature()
        print(feature.__name__, flush=True)
    sys.exit(0)
