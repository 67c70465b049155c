'use strict';

const { Money } = require('./money');

const CODES = {
  TEN: { percent: 10, minimum: 2000 },
  BIG: { percent: 25, minimum: 10000 },
};

function shipping(total, weight) {
  if (total.cents >= 5000 || weight === 0) {
    return new Money(0, total.currency);
  }
  const steps = Math.ceil(weight / 2);
  return new Money(290 + (steps - 1) * 100, total.currency);
}

function applyCode(total, code) {
  const rule = CODES[code.trim().toUpperCase()];
  if (!rule) {
    return { total, error: 'unknown code' };
  }
  if (total.cents < rule.minimum) {
    return { total, error: 'below minimum' };
  }
  const off = total.percent(rule.percent);
  return { total: total.plus(off.times(-1)), error: null };
}

async function checkout(cart, pay, { code = '', weight = 0 } = {}) {
  let total = cart.total();
  if (code) {
    const result = applyCode(total, code);
    if (result.error) {
      throw new Error(result.error);
    }
    total = result.total;
  }
  total = total.plus(shipping(total, weight));
  const receipt = await pay(total);
  return { id: receipt.id, total: total.toString(), items: cart.count() };
}

module.exports = { shipping, applyCode, checkout };
