import atexit, os, sys, threading

# The interpreter imports this file at its start. It records which lines the failing
# and the passing tests execute.
out = os.environ.get("HORTUS_TRACE")
failed = set(os.environ.get("HORTUS_TRACE_FAILED", "").split("\n"))
root = os.getcwd() + os.sep
names = {}  # code file to path below the root, or None
common, tests = set(), {}
state = [None, common]  # the frame of the running test, and its lines


def below(code):
    if code not in names:
        full = os.path.abspath(code)
        path = full[len(root):] if full.startswith(root) else None
        if path and (" " in path or "site-packages" in path or not path.endswith(".py")):
            path = None
        names[code] = path
    return names[code]


def local(frame, event, arg):
    if event == "line":
        state[1].add((names[frame.f_code.co_filename], frame.f_lineno))
    elif event == "return" and state[0] is frame:
        state[:] = [None, common]
    return local


def called(frame, event, arg):
    path = below(frame.f_code.co_filename)
    if path is None:
        return None
    name = frame.f_code.co_name
    if state[0] is None and name.startswith("test") and "test" in path:
        state[:] = [frame, tests.setdefault(name, set())]
    state[1].add((path, frame.f_lineno))
    return local


def write():
    sys.settrace(None)
    failing = [lines for name, lines in tests.items() if name in failed]
    passing = [lines for name, lines in tests.items() if name not in failed]
    if not failing:
        failing, passing = [common.union(*tests.values())], []
    everything = common.union(*failing)
    with open(out + "." + str(os.getpid()), "w") as f:
        f.write("total %d %d\n" % (len(failing), len(passing)))
        for line in everything:
            hits = [sum(line in t or line in common for t in part) for part in (failing, passing)]
            f.write("line %d %d %d %s\n" % (hits[0], hits[1], line[1], line[0]))


if out:
    atexit.register(write)
    threading.settrace(called)
    sys.settrace(called)
