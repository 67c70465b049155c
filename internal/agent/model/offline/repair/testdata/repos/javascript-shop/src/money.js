'use strict';

class Money {
  constructor(cents, currency = 'EUR') {
    this.cents = Math.round(cents);
    this.currency = currency;
  }

  static of(text) {
    const [amount, currency] = text.split(' ');
    return new Money(parseFloat(amount) * 100, currency);
  }

  plus(other) {
    this.check(other);
    return new Money(this.cents + other.cents, this.currency);
  }

  times(factor) {
    return new Money(this.cents * factor, this.currency);
  }

  percent(rate) {
    return this.times(rate / 100);
  }

  isMoreThan(other) {
    this.check(other);
    return this.cents > other.cents;
  }

  check(other) {
    if (other.currency !== this.currency) {
      throw new TypeError(`${other.currency} is not ${this.currency}`);
    }
  }

  toString() {
    const sign = this.cents < 0 ? '-' : '';
    const abs = Math.abs(this.cents);
    const rest = String(abs % 100).padStart(2, '0');
    return `${sign}${Math.floor(abs / 100)}.${rest} ${this.currency}`;
  }
}

module.exports = { Money };
