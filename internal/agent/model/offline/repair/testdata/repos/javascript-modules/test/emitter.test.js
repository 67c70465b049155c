import { test, describe, it } from 'node:test';
import assert from 'node:assert';
import { Emitter, retry } from '../src/emitter.js';

describe('Emitter', () => {
  it('calls handlers in order', () => {
    const e = new Emitter();
    const seen = [];
    e.on('x', (n) => seen.push(n));
    e.on('x', (n) => seen.push(n * 2));
    assert.strictEqual(e.emit('x', 4), true);
    assert.deepStrictEqual(seen, [4, 8]);
    assert.strictEqual(e.emit('y'), false);
  });

  it('stops after off', () => {
    const e = new Emitter();
    const seen = [];
    const off = e.on('x', () => seen.push('a'));
    e.on('x', () => seen.push('b'));
    off();
    e.emit('x');
    assert.deepStrictEqual(seen, ['b']);
  });

  it('calls once', () => {
    const e = new Emitter();
    let n = 0;
    e.once('x', (by) => { n += by; });
    e.emit('x', 5);
    e.emit('x', 5);
    assert.strictEqual(n, 5);
  });
});

test('retry gives the first success', async () => {
  const tries = [];
  const result = await retry(async (i) => {
    tries.push(i);
    if (i < 3) throw new Error('no ' + i);
    return 'yes';
  });
  assert.strictEqual(result, 'yes');
  assert.deepStrictEqual(tries, [1, 2, 3]);
  await assert.rejects(retry(async (i) => { throw new Error('no ' + i); }, 2), /no 2/);
});
