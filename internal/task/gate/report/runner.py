# Runs unittest or pytest as "python3 -m" does, and reports each test as it ends.
#
# The host writes this file outside of the repository and fills in the key, in its last
# line. Everything that the report needs is imported before the repository can be.
import os
import sys


def run(key):
    import builtins
    import hashlib
    import json
    import random
    import time
    import types

    leave, write, sha256, dumps, getpid = os._exit, os.write, hashlib.sha256, json.dumps, os.getpid
    here = os.path.dirname(os.path.abspath(__file__))
    if here in sys.path:
        sys.path.remove(here)
    os.unlink(__file__)
    only = None  # the tests that are run, if not all
    names = os.path.join(here, "only")
    if os.path.exists(names):
        with open(names) as f:
            only = set(json.load(f))
        os.unlink(names)
    args = os.path.join(here, "args")
    if os.path.exists(args):
        with open(args) as f:
            sys.argv[1:] = f.read().split("\n")[:-1]
        os.unlink(args)
    out = os.open(os.path.join(here, "report"), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    top = os.getcwd()
    owner = getpid()
    count = 0

    def say(**record):
        """Adds a record. Its sum shows the host that this function wrote it, and where."""
        nonlocal count
        if getpid() != owner:
            return  # a test that forked
        line = dumps(record).encode()
        sum = sha256(key + str(count).encode() + b" " + line + key).hexdigest()
        count += 1
        data = sum[:32].encode() + b" " + line + b"\n"
        while data:
            data = data[write(out, data):]

    # What the repository must leave as it is.

    def mark(value):
        """Gives what tells a callable from another one, or None for other values."""
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if isinstance(value, types.FunctionType):
            return (value, value.__code__, value.__defaults__, value.__kwdefaults__)
        if callable(value) or isinstance(value, property):
            return (value,)
        return None

    def same(a, b):
        return a is not None and b is not None and len(a) == len(b) and all(x is y for x, y in zip(a, b))

    def members(name, space, into):
        for key, value in list(space.items()):
            m = mark(value)
            if m is not None:
                into.append((name + "." + key, space, key, m))

    def watch(tops):
        """Marks the callables of modules and of their classes."""
        found = []
        for name, module in list(sys.modules.items()):
            if module is None or name.split(".")[0] not in tops:
                continue
            members(name, vars(module), found)
            for cls in list(vars(module).values()):
                if isinstance(cls, type) and cls.__module__ == name:
                    members(name + "." + cls.__qualname__, vars(cls), found)
        return found

    told = set()

    def tampered(what):
        if what not in told:
            told.add(what)
            say(tampered=what)

    def compare(marks):
        for name, space, key, m in marks:
            if not same(mark(space.get(key)), m):
                tampered(name)

    def inside(path):
        return path and os.path.abspath(path).startswith(top + os.sep)

    def file_of(module):
        return getattr(sys.modules.get(module), "__file__", None) or ""

    def compare_hooks():
        if sys.gettrace() is not None or sys.getprofile() is not None:
            tampered("sys.settrace")
        for hook in list(sys.meta_path) + list(sys.path_hooks):
            kind = hook if isinstance(hook, (type, types.FunctionType)) else type(hook)
            if inside(file_of(kind.__module__)):
                tampered("sys.meta_path")

    def equals_everything(cls):
        """Says whether objects of a class equal values that differ from one another."""
        compare = cls.__dict__.get("__eq__")
        if not isinstance(compare, types.FunctionType):
            return False
        for base in (object, int, str, float, list, dict, tuple):
            try:
                one = base.__new__(cls)
                break
            except Exception:
                continue
        else:
            return False
        hits = 0
        for value in (random.random(), random.getrandbits(60), "%x" % random.getrandbits(60), [random.random()], {random.random(): 0}):
            try:
                if compare(one, value) is not NotImplemented and compare(one, value):
                    hits += 1
            except Exception:
                pass
        return hits > 1

    def is_test(path):
        path = os.path.relpath(path, top)
        base = os.path.basename(path).lower()
        parts = [p.lower() for p in path.split(os.sep)[:-1]]
        return base.startswith("test") or base.endswith(("_test.py", "_tests.py")) or base == "conftest.py" or \
            any(p in ("test", "tests", "testing") for p in parts)

    def compare_classes():
        seen, queue = set(), list(type.__subclasses__(object))
        while queue:
            cls = queue.pop()
            if cls in seen:
                continue
            seen.add(cls)
            queue.extend(type.__subclasses__(cls))
            path = file_of(cls.__module__)
            if inside(path) and not is_test(path) and equals_everything(cls):
                tampered("%s of %s equals everything" % (cls.__qualname__, os.path.relpath(path, top)))

    clock, pace = time.perf_counter, {"spent": 0.0, "since": 0.0}

    def check(more, now=False):
        """Compares everything, for at most a twentieth of the time unless told "now"."""
        at = clock()
        if not now and at - pace["since"] < 20 * pace["spent"]:
            return
        compare(own)
        compare(loaded)
        compare_hooks()
        more()
        try:
            compare_classes()
        except Exception as e:
            tampered("classes of the repository (%s)" % type(e).__name__)
        pace["since"] = clock()
        pace["spent"] = pace["since"] - at

    def end(code, more=lambda: None):
        """Leaves before anything that the repository registered for the end runs."""
        check(more, now=True)
        say(end=code)
        for f in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            try:
                f.flush()
            except Exception:
                pass
        leave(code)

    own, loaded = [], []
    members("builtins", vars(builtins), own)
    disguise = json.loads('DISGUISE')
    shell = {"disguise": disguise, "say": say, "mark": mark, "same": same, "members": members, "watch": watch, "tampered": tampered,
             "check": check, "end": end, "own": own, "loaded": loaded, "top": top, "only": only}
    how = sys.argv[1] if len(sys.argv) > 1 else ""
    del sys.argv[1:2]
    say(begin=how)
    if disguise["days"]:
        later(disguise["days"])
    if disguise["names"]:
        hide(inside, is_test)
    if how == "unittest":
        run_unittest(shell)
    elif how == "pytest":
        run_pytest(shell)
    else:
        leave(2)


def later(days):
    """Lets the repository see a later date."""
    import datetime
    import time

    seconds = days * 86400
    now, nanoseconds, local, utc, text, form = time.time, time.time_ns, time.localtime, time.gmtime, time.ctime, time.strftime
    time.time = lambda: now() + seconds
    time.time_ns = lambda: nanoseconds() + seconds * 10**9
    time.localtime = lambda at=None: local(time.time() if at is None else at)
    time.gmtime = lambda at=None: utc(time.time() if at is None else at)
    time.ctime = lambda at=None: text(time.time() if at is None else at)
    time.strftime = lambda format, at=None: form(format, time.localtime() if at is None else at)

    class Kind(type):
        def __instancecheck__(cls, value):
            real = reals.get(cls)
            return type.__instancecheck__(cls, value) if real is None else isinstance(value, real)

        def __subclasscheck__(cls, other):
            real = reals.get(cls)
            return type.__subclasscheck__(cls, other) if real is None else issubclass(other, real)

    class date(datetime.date, metaclass=Kind):
        @classmethod
        def today(cls):
            return cls.fromtimestamp(time.time())

    class moment(datetime.datetime, metaclass=Kind):
        @classmethod
        def now(cls, tz=None):
            return cls.fromtimestamp(time.time(), tz)

        @classmethod
        def today(cls):
            return cls.fromtimestamp(time.time())

        @classmethod
        def utcnow(cls):
            return cls.fromtimestamp(time.time(), datetime.timezone.utc).replace(tzinfo=None)

    reals = {date: datetime.date, moment: datetime.datetime}
    for cls, name in ((date, "date"), (moment, "datetime")):
        cls.__name__ = cls.__qualname__ = name
        cls.__module__ = "datetime"
        setattr(datetime, name, cls)


def hide(inside, is_test):
    """Lets the repository's programs see neither the runner nor its modules. Its tests do."""
    from collections.abc import MutableMapping

    main = sys.modules["__main__"]
    main.__file__ = os.path.abspath("app.py")
    sys.orig_argv = [sys.executable, "app.py"]
    real, frame = sys.modules, sys._getframe
    runners = ("unittest", "pytest", "_pytest", "pluggy", "doctest")

    def shown():
        """Gives what tells the keys that the caller of a method sees."""
        asks = frame(2).f_code.co_filename
        if asks.startswith("<frozen") or not inside(asks) or is_test(asks):
            return lambda key: True
        return lambda key: not isinstance(key, str) or key.split(".")[0] not in runners

    class Modules(MutableMapping):
        def __getitem__(self, key):
            if not shown()(key):
                raise KeyError(key)
            return real[key]

        def __contains__(self, key):
            return shown()(key) and key in real

        def get(self, key, default=None):
            return real.get(key, default) if shown()(key) else default

        def __iter__(self):
            return iter(list(filter(shown(), list(real))))

        def __setitem__(self, key, value):
            real[key] = value

        def __delitem__(self, key):
            del real[key]

        def __len__(self):
            return len(real)

        def keys(self):
            return list(filter(shown(), list(real)))

        def copy(self):
            return dict(real)

    sys.modules = Modules()


def begin(shell):
    """Lets the repository's modules be imported, as "python3 -m" does."""
    if not sys.flags.isolated and not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, shell["top"])


def code_of(e):
    if e.code is None:
        return 0
    if isinstance(e.code, int):
        return e.code & 0xFF
    sys.stderr.write("%s\n" % (e.code,))
    return 1


def run_unittest(shell):
    import unittest
    import unittest.mock
    import unittest.main

    say, tampered, members, end = shell["say"], shell["tampered"], shell["members"], shell["end"]
    loaded, token = shell["loaded"], shell["disguise"]["token"]
    shell["own"].extend(shell["watch"](("unittest",)))
    methods = {name for name, value in vars(unittest.TestCase).items() if callable(value)}
    classes = {}

    def learn(cls):
        """Marks what a test's class and its bases have when it is first seen."""
        for base in cls.__mro__:
            if base is object or base.__module__.split(".")[0] == "unittest" or base in classes:
                continue
            marks = []
            members(base.__module__ + "." + base.__qualname__, vars(base), marks)
            classes[base] = set(vars(base))
            loaded.extend(marks)

    def learn_all(suite):
        for test in suite:
            if isinstance(test, unittest.TestCase):
                learn(type(test))
            elif isinstance(test, unittest.TestSuite):
                learn_all(test)

    def additions():
        for base, names in classes.items():
            for name in set(vars(base)) - names:
                if name in methods:
                    tampered(base.__module__ + "." + base.__qualname__ + "." + name)

    def replaced(test):
        for name in vars(test):
            if name in methods:
                tampered(test.id() + " had its " + name + " replaced")

    class Result(unittest.TextTestResult):
        def startTest(self, test):
            self._hortus = ""
            say(start=test.id())
            super().startTest(test)

        def stopTest(self, test):
            super().stopTest(test)
            replaced(test)
            shell["check"](additions)
            say(test=test.id(), how=self._hortus or "failed")

        def addSuccess(self, test):
            self._hortus = self._hortus or "passed"
            super().addSuccess(test)

        def addSubTest(self, test, subtest, err):
            if err is not None:
                self._hortus = "failed"
            super().addSubTest(test, subtest, err)

        def addFailure(self, test, err):
            self._hortus = "failed"
            super().addFailure(test, err)

        def addError(self, test, err):
            if type(test).__name__ == "_FailedTest":
                self._hortus = "broken"  # a module that cannot be imported
            elif isinstance(test, unittest.TestCase):
                self._hortus = "failed"
            else:
                say(test=test.id(), how="broken")  # setUpClass, setUpModule
            super().addError(test, err)

        def addSkip(self, test, reason):
            self._hortus = "skipped"
            super().addSkip(test, reason)

        def addExpectedFailure(self, test, err):
            self._hortus = "expected"
            super().addExpectedFailure(test, err)

        def addUnexpectedSuccess(self, test):
            self._hortus = "failed"
            super().addUnexpectedSuccess(test)

    def select(suite):
        """Leaves the tests of the list in a suite."""
        for test in suite._tests:
            if isinstance(test, unittest.BaseTestSuite):
                select(test)
        suite._tests = [t for t in suite._tests if isinstance(t, unittest.BaseTestSuite) or t.id().replace(token, "") in shell["only"]]

    def turn(suite):
        """Reverses the classes and modules of tests."""
        suite._tests.reverse()
        for test in suite._tests:
            if isinstance(test, unittest.BaseTestSuite):
                turn(test)

    class Runner(unittest.TextTestRunner):
        resultclass = Result

        def run(self, test):
            learn_all(test)
            shell["check"](additions, now=True)
            if shell["only"] is not None:
                select(test)
            if shell["disguise"]["order"]:
                turn(test)
            result = super().run(test)
            if result.shouldStop:
                say(lost="the tests after a stop")
            return result

    args = [os.path.basename(sys.executable) + " -m unittest", *sys.argv[1:]]
    sys.argv[:] = ["app.py"] if shell["disguise"]["names"] else args
    main = unittest.main
    begin(shell)
    try:
        main(module=None, argv=args, testRunner=Runner)
        code = 0
    except SystemExit as e:
        code = code_of(e)
    end(code, additions)


def run_pytest(shell):
    # The command "pytest" leaves the current directory out of sys.path.
    command = sys.argv[1:2] == ["--as-command"]
    if command:
        del sys.argv[1]
    try:
        import pytest
    except ImportError as e:
        sys.stderr.write("%s: %s\n" % (sys.executable, e))
        shell["end"](1)
    say, mark, same, tampered, end = shell["say"], shell["mark"], shell["same"], shell["tampered"], shell["end"]
    functions = []

    def changed():
        for name, function, m in functions:
            if not same(mark(function), m):
                tampered(name)

    how = {}

    for plugin in getattr(sys.modules["_pytest.config"], "default_plugins", ()):
        __import__("_pytest." + plugin)
    args, disguise = sys.argv[1:], shell["disguise"]
    if disguise["names"]:
        sys.argv[:] = ["app.py"]
        sys.modules["_pytest.runner"]._update_current_test_var = lambda item, when: None
    # pytest itself replaces this one for a while.
    legacy = "_pytest.config.Config._getini_unknown_type"
    shell["own"].extend(m for m in shell["watch"](("_pytest", "pytest", "pluggy")) if m[0] != legacy)

    class Report:
        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(self, items):
            if shell["only"] is not None:
                items[:] = [item for item in items if item.nodeid.replace(disguise["token"], "") in shell["only"]]
            if disguise["order"]:
                items.reverse()

        @pytest.hookimpl(tryfirst=True)
        def pytest_sessionfinish(self, session):
            if session.shouldstop or session.shouldfail:
                say(lost="the tests after a stop")

        @pytest.hookimpl(trylast=True)
        def pytest_collection_finish(self, session):
            for item in session.items:
                function = getattr(item, "function", None)
                m = mark(function)
                if m is not None:
                    functions.append((item.nodeid, function, m))
            shell["check"](changed, now=True)

        def pytest_sessionstart(self, session):
            if disguise["names"]:
                os.environ.pop("PYTEST_VERSION", None)

        def pytest_collectreport(self, report):
            if report.failed:
                say(test=report.nodeid, how="broken")

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_logstart(self, nodeid, location):
            how.pop(nodeid, None)
            say(start=nodeid)

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_logreport(self, report):
            was, outcome = how.get(report.nodeid, ""), report.outcome
            if outcome == "skipped" and hasattr(report, "wasxfail"):
                outcome = "expected"
            if was != "failed" and (outcome != "passed" or (not was and report.when == "call")):
                how[report.nodeid] = outcome

        @pytest.hookimpl(trylast=True)
        def pytest_runtest_logfinish(self, nodeid, location):
            shell["check"](changed)
            say(test=nodeid, how=how.pop(nodeid, "failed"))

    if not command:
        begin(shell)
    try:
        code = int(pytest.main(args, plugins=[Report()]))
    except SystemExit as e:
        code = code_of(e)
    end(code, changed)


run(bytes.fromhex("KEY"))
