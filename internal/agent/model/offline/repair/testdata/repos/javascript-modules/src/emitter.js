export class Emitter {
  constructor() {
    this.handlers = new Map();
  }

  on(event, handler) {
    const list = this.handlers.get(event) ?? [];
    list.push(handler);
    this.handlers.set(event, list);
    return () => this.off(event, handler);
  }

  once(event, handler) {
    const off = this.on(event, (...args) => {
      off();
      handler(...args);
    });
    return off;
  }

  off(event, handler) {
    const list = this.handlers.get(event) ?? [];
    this.handlers.set(event, list.filter((h) => h !== handler));
  }

  emit(event, ...args) {
    const list = this.handlers.get(event) ?? [];
    for (const handler of list) {
      handler(...args);
    }
    return list.length > 0;
  }
}

export async function retry(work, attempts = 3) {
  let last;
  for (let i = 1; i <= attempts; i++) {
    try {
      return await work(i);
    } catch (error) {
      last = error;
    }
  }
  throw last;
}
