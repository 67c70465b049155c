'use strict';

const assert = require('assert');
const { Money } = require('./src/money');
const { Cart } = require('./src/cart');
const { applyCode, checkout, shipping } = require('./src/promo');

function testMoney() {
  assert.strictEqual(String(new Money(1205)), '12.05 EUR');
  assert.strictEqual(String(new Money(-5, 'USD')), '-0.05 USD');
  assert.strictEqual(Money.of('19.99 USD').cents, 1999);
  assert.strictEqual(Money.of('1.10 USD').currency, 'USD');
  assert.strictEqual(new Money(199).plus(new Money(1)).cents, 200);
  assert.strictEqual(new Money(250).times(3).cents, 750);
  assert.strictEqual(new Money(999).percent(10).cents, 100);
  assert.strictEqual(new Money(2).isMoreThan(new Money(1)), true);
  assert.strictEqual(new Money(1).isMoreThan(new Money(1)), false);
  assert.throws(() => new Money(1).plus(new Money(1, 'USD')), /USD is not EUR/);
}

function testCart() {
  const cart = new Cart();
  cart.add('tea', new Money(350), 2).add('cup', new Money(800));
  cart.add('tea', new Money(350));
  assert.strictEqual(cart.count(), 4);
  assert.strictEqual(cart.items.length, 2);
  assert.strictEqual(String(cart.total()), '18.50 EUR');
  assert.strictEqual(cart.remove('tea', 1), true);
  assert.strictEqual(cart.count(), 3);
  assert.strictEqual(cart.remove('pot'), false);
  assert.strictEqual(cart.remove('tea'), true);
  assert.strictEqual(cart.items[0].name, 'cup');
  cart.remove('cup', 1);
  assert.strictEqual(cart.items.length, 0);
}

function testShipping() {
  assert.strictEqual(shipping(new Money(4999), 2).cents, 290);
  assert.strictEqual(shipping(new Money(100), 5).cents, 490);
  assert.strictEqual(shipping(new Money(5000), 5).cents, 0);
  assert.strictEqual(shipping(new Money(100), 0).cents, 0);
}

function testCodes() {
  assert.strictEqual(applyCode(new Money(2000), ' ten ').total.cents, 1800);
  assert.strictEqual(applyCode(new Money(1999), 'TEN').error, 'below minimum');
  assert.strictEqual(applyCode(new Money(1999), 'NOPE').error, 'unknown code');
  assert.strictEqual(applyCode(new Money(10000), 'BIG').total.cents, 7500);
  assert.strictEqual(applyCode(new Money(10000), 'BIG').error, null);
}

async function testCheckout() {
  const cart = new Cart().add('lamp', new Money(3000));
  const paid = [];
  const pay = async (amount) => {
    paid.push(amount.cents);
    return { id: paid.length };
  };
  assert.deepStrictEqual(await checkout(cart, pay, { code: 'ten', weight: 3 }), { id: 1, total: '30.90 EUR', items: 1 });
  assert.deepStrictEqual(await checkout(cart, pay), { id: 2, total: '30.00 EUR', items: 1 });
  assert.deepStrictEqual(paid, [3090, 3000]);
  await assert.rejects(checkout(cart, pay, { code: 'big' }), /below minimum/);
}

testMoney();
testCart();
testShipping();
testCodes();
testCheckout().then(() => console.log('ok'), (error) => {
  console.error(error);
  process.exit(1);
});
