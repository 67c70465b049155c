class Node:
    def __init__(self, value, following=None):
        self.value = value
        self.following = following


class LinkedList:
    def __init__(self):
        self.head = None

    def append(self, value):
        if self.head is None:
            self.head = Node(value)
            return
        node = self.head
        while node.following is not None:
            node = node.following
        node.following = Node(value)

    def __iter__(self):
        node = self.head
        while node is not None:
            yield node.value
            node = node.following


items = LinkedList()
for value in (1, 2, 3):
    items.append(value)
print(" -> ".join(map(str, items)))
