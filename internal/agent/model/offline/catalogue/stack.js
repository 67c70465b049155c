class Stack {
  constructor() {
    this.items = [];
  }

  push(item) {
    this.items.push(item);
  }

  pop() {
    if (this.items.length === 0) {
      throw new RangeError("the stack is empty");
    }
    return this.items.pop();
  }

  peek() {
    return this.items[this.items.length - 1];
  }

  get size() {
    return this.items.length;
  }
}

const stack = new Stack();
for (const item of [1, 2, 3]) {
  stack.push(item);
  console.log("push " + item);
}
console.log("peek " + stack.peek());
while (stack.size > 0) {
  console.log("pop " + stack.pop());
}
