from collections import deque


class Queue:
    def __init__(self):
        self.items = deque()

    def enqueue(self, item):
        self.items.append(item)

    def dequeue(self):
        if not self.items:
            raise IndexError("the queue is empty")
        return self.items.popleft()

    def __len__(self):
        return len(self.items)


queue = Queue()
for item in (1, 2, 3):
    queue.enqueue(item)
    print("enqueue", item)
while len(queue) > 0:
    print("dequeue", queue.dequeue())
