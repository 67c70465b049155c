'use strict';

const { Money } = require('./money');

class Cart {
  constructor(currency = 'EUR') {
    this.currency = currency;
    this.items = [];
  }

  add(name, price, quantity = 1) {
    const known = this.items.find((item) => item.name === name);
    if (known) {
      known.quantity += quantity;
    } else {
      this.items.push({ name, price, quantity });
    }
    return this;
  }

  remove(name, quantity = Infinity) {
    const index = this.items.findIndex((item) => item.name === name);
    if (index === -1) {
      return false;
    }
    this.items[index].quantity -= quantity;
    if (this.items[index].quantity <= 0) {
      this.items.splice(index, 1);
    }
    return true;
  }

  count() {
    return this.items.reduce((n, item) => n + item.quantity, 0);
  }

  total() {
    let sum = new Money(0, this.currency);
    for (const item of this.items) {
      sum = sum.plus(item.price.times(item.quantity));
    }
    return sum;
  }
}

module.exports = { Cart };
