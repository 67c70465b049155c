class LinkedList {
  constructor() {
    this.head = null;
  }

  append(value) {
    const node = { value, following: null };
    if (this.head === null) {
      this.head = node;
      return;
    }
    let last = this.head;
    while (last.following !== null) {
      last = last.following;
    }
    last.following = node;
  }

  *[Symbol.iterator]() {
    for (let node = this.head; node !== null; node = node.following) {
      yield node.value;
    }
  }
}

const items = new LinkedList();
for (const value of [1, 2, 3]) {
  items.append(value);
}
console.log([...items].join(" -> "));
