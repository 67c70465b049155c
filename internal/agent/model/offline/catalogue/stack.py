class Stack:
    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)

    def pop(self):
        if not self.items:
            raise IndexError("the stack is empty")
        return self.items.pop()

    def peek(self):
        return self.items[-1] if self.items else None

    def __len__(self):
        return len(self.items)


stack = Stack()
for item in (1, 2, 3):
    stack.push(item)
    print("push", item)
print("peek", stack.peek())
while len(stack) > 0:
    print("pop", stack.pop())
