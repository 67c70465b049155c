'use strict';

const test = require('node:test');
const assert = require('node:assert');
const { parseLine } = require('../src/parse');
const { Book } = require('../src/book');

const text = 'name;phone;city\nAda;123;London\nGrace;456;New York\nAlan;789;London\n';

test('a line has as many fields as it has separators, and one', () => {
  assert.deepStrictEqual(parseLine('a; b ;c'), ['a', 'b', 'c']);
  assert.deepStrictEqual(parseLine('"a;b";c'), ['a;b', 'c']);
  assert.deepStrictEqual(parseLine('a;'), ['a', '']);
});

test('people are found by name', () => {
  assert.strictEqual(new Book(text).find('Grace').phone, '456');
});

test('people are found by city', () => {
  assert.deepStrictEqual(new Book(text).inCity('London'), ['Ada', 'Alan']);
});
