'use strict';

const test = require('node:test');
const assert = require('node:assert');
const { parse, parseLine } = require('../lib/parse');
const { average, groupBy, orderBy, page, sum, where } = require('../lib/query');
const { quote, stringify, table, totals } = require('../lib/format');

const text = 'name,team,points\nada,red,3\ngrace,blue,5\n\nalan,red,4\n';

test('parseLine reads quotes', () => {
  assert.deepStrictEqual(parseLine('a,"b,c",d'), ['a', 'b,c', 'd']);
  assert.deepStrictEqual(parseLine('"say ""hi""",x'), ['say "hi"', 'x']);
  assert.deepStrictEqual(parseLine('a;b;', ';'), ['a', 'b', '']);
});

test('parse makes rows', () => {
  const rows = parse(text);
  assert.strictEqual(rows.length, 3);
  assert.deepStrictEqual(rows[1], { name: 'grace', team: 'blue', points: '5' });
  assert.deepStrictEqual(parse('a,b\n 1 , 2', { trim: true }), [{ a: '1', b: '2' }]);
  assert.deepStrictEqual(parse('a,b\n 1 ,2'), [{ a: ' 1 ', b: '2' }]);
});

test('where keeps what matches all', () => {
  const rows = parse(text);
  assert.deepStrictEqual(where(rows, { team: 'red', name: 'ada' }).map((r) => r.name), ['ada']);
  assert.strictEqual(where(rows, {}).length, 3);
});

test('orderBy sorts a copy', () => {
  const rows = parse(text);
  assert.deepStrictEqual(orderBy(rows, 'points').map((r) => r.name), ['ada', 'alan', 'grace']);
  assert.deepStrictEqual(orderBy(rows, 'name', true).map((r) => r.name), ['grace', 'alan', 'ada']);
  assert.strictEqual(rows[0].name, 'ada');
  assert.strictEqual(rows[1].name, 'grace');
});

test('groupBy and sum', () => {
  const groups = groupBy(parse(text), 'team');
  assert.deepStrictEqual([...groups.keys()], ['red', 'blue']);
  assert.strictEqual(sum(groups.get('red'), 'points'), 7);
});

test('average', () => {
  assert.strictEqual(average(parse(text), 'points'), 4);
  assert.strictEqual(average([], 'points'), null);
});

test('page', () => {
  const rows = [1, 2, 3, 4, 5];
  assert.deepStrictEqual(page(rows, 1, 2), { rows: [1, 2], pages: 3, last: false });
  assert.deepStrictEqual(page(rows, 3, 2), { rows: [5], pages: 3, last: true });
  assert.deepStrictEqual(page([1, 2], 1, 2), { rows: [1, 2], pages: 1, last: true });
  assert.strictEqual(page(Array(11).fill(0), 1).rows.length, 10);
});

test('quote', () => {
  assert.strictEqual(quote('a'), 'a');
  assert.strictEqual(quote('a,b'), '"a,b"');
  assert.strictEqual(quote('a"b'), '"a""b"');
  assert.strictEqual(quote('a\nb'), '"a\nb"');
  assert.strictEqual(quote(3), '3');
});

test('stringify comes back', () => {
  const rows = [{ a: '1', b: 'x,y' }, { a: '2', b: '' }];
  assert.strictEqual(stringify(rows), 'a,b\n1,"x,y"\n2,\n');
});

test('table', () => {
  assert.deepStrictEqual(table([{ name: 'ada', n: 1 }, { name: 'al', n: 12 }], ['name', 'n']), [
    'name | n',
    '-----+---',
    'ada  | 1',
    'al   | 12',
  ]);
});

test('totals', () => {
  assert.deepStrictEqual(totals(parse(text), 'team', 'points'), { red: 7, blue: 5 });
});
