from collections import deque


class CycleError(Exception):
    pass


class Graph:
    def __init__(self):
        self.edges = {}

    def add(self, node, *needs):
        self.edges.setdefault(node, set())
        for other in needs:
            self.edges.setdefault(other, set())
            self.edges[node].add(other)
        return self

    def order(self):
        waiting = {node: len(needs) for node, needs in self.edges.items()}
        ready = deque(sorted(n for n, count in waiting.items() if count == 0))
        result = []
        while ready:
            node = ready.popleft()
            result.append(node)
            for other in sorted(self.edges):
                if node in self.edges[other]:
                    waiting[other] -= 1
                    if waiting[other] == 0:
                        ready.append(other)
        if len(result) != len(self.edges):
            raise CycleError("the graph has a cycle")
        return result

    def depth(self, node):
        needs = self.edges[node]
        if not needs:
            return 0
        return 1 + max(self.depth(other) for other in needs)
