import unittest

from graph import CycleError, Graph
from intervals import free, merge, overlap
from jobs import Queue, critical_path, retry_delays, schedule


class IntervalsTest(unittest.TestCase):
    def test_merge(self):
        self.assertEqual(merge([(5, 7), (1, 3), (2, 4)]), [(1, 4), (5, 7)])
        self.assertEqual(merge([(1, 2), (2, 3)]), [(1, 3)])
        self.assertEqual(merge([(1, 9), (2, 3)]), [(1, 9)])
        self.assertEqual(merge([]), [])

    def test_free(self):
        self.assertEqual(free([(10, 12), (11, 13)], 9, 17), [(9, 10), (13, 17)])
        self.assertEqual(free([(9, 17)], 9, 17), [])
        self.assertEqual(free([(8, 10), (15, 18)], 9, 17), [(10, 15)])

    def test_overlap(self):
        self.assertEqual(overlap((1, 5), (3, 8)), 2)
        self.assertEqual(overlap((1, 2), (5, 8)), 0)


class GraphTest(unittest.TestCase):
    def test_order(self):
        g = Graph().add("ship", "test", "build").add("test", "build").add("docs")
        self.assertEqual(g.order(), ["build", "docs", "test", "ship"])

    def test_cycle(self):
        with self.assertRaises(CycleError):
            Graph().add("a", "b").add("b", "a").order()

    def test_depth(self):
        g = Graph().add("a", "b").add("b", "c").add("a", "c")
        self.assertEqual(g.depth("a"), 2)
        self.assertEqual(g.depth("c"), 0)


class JobsTest(unittest.TestCase):
    def test_queue(self):
        q = Queue()
        q.push("a", "low")
        q.push("b")
        q.push("c", "high")
        q.push("d")
        self.assertEqual(len(q), 4)
        self.assertEqual([q.pop() for _ in range(5)], ["c", "b", "d", "a", None])

    def test_schedule(self):
        ends = schedule([("a", 3), ("b", 1), ("c", 1), ("d", 4)], 2)
        self.assertEqual(ends, {"a": 3, "b": 1, "c": 2, "d": 6})

    def test_critical_path(self):
        durations = {"a": 2, "b": 3, "c": 4, "d": 1}
        self.assertEqual(critical_path(durations, {"c": ["a"], "d": ["b", "c"]}), 7)

    def test_retry(self):
        self.assertEqual(retry_delays(6), [1, 2, 4, 8, 16, 30])
        self.assertEqual(retry_delays(3, base=5, factor=3, most=100), [5, 15, 45])


if __name__ == "__main__":
    unittest.main()
