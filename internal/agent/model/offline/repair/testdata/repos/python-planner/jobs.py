import heapq
import itertools

from graph import Graph

PRIORITIES = {"high": 0, "normal": 1, "low": 2}


class Queue:
    def __init__(self):
        self._heap = []
        self._counter = itertools.count()

    def push(self, job, priority="normal"):
        rank = PRIORITIES[priority]
        heapq.heappush(self._heap, (rank, next(self._counter), job))

    def pop(self):
        if not self._heap:
            return None
        return heapq.heappop(self._heap)[2]

    def __len__(self):
        return len(self._heap)


def schedule(durations, workers):
    """Give the time at which each job ends, the first free worker taking it."""
    free = [0] * workers
    ends = {}
    for name, duration in durations:
        start = heapq.heappop(free)
        ends[name] = start + duration
        heapq.heappush(free, ends[name])
    return ends


def critical_path(durations, needs):
    graph = Graph()
    for name in durations:
        graph.add(name, *needs.get(name, ()))
    finish = {}
    for name in graph.order():
        begin = 0
        for other in needs.get(name, ()):
            begin = max(begin, finish[other])
        finish[name] = begin + durations[name]
    return max(finish.values())


def retry_delays(attempts, base=1, factor=2, most=30):
    return [min(base * factor ** i, most) for i in range(attempts)]
