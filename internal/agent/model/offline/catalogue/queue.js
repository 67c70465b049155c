class Queue {
  constructor() {
    this.items = [];
  }

  enqueue(item) {
    this.items.push(item);
  }

  dequeue() {
    if (this.items.length === 0) {
      throw new RangeError("the queue is empty");
    }
    return this.items.shift();
  }

  get size() {
    return this.items.length;
  }
}

const queue = new Queue();
for (const item of [1, 2, 3]) {
  queue.enqueue(item);
  console.log("enqueue " + item);
}
while (queue.size > 0) {
  console.log("dequeue " + queue.dequeue());
}
