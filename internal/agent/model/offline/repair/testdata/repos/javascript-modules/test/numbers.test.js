import { test } from 'node:test';
import assert from 'node:assert';
import { multiply, trace, transpose, zeros } from '../src/matrix.js';
import { clamp, columnMeans, histogram, mean, median, movingAverage } from '../src/stats.js';

test('matrices', () => {
  assert.deepStrictEqual(zeros(1, 2), [[0, 0]]);
  assert.deepStrictEqual(multiply([[1, 2], [3, 4]], [[5, 6], [7, 8]]), [[19, 22], [43, 50]]);
  assert.deepStrictEqual(multiply([[1, 2, 3]], [[1], [2], [3]]), [[14]]);
  assert.throws(() => multiply([[1, 2]], [[1, 2]]), RangeError);
  assert.deepStrictEqual(transpose([[1, 2, 3], [4, 5, 6]]), [[1, 4], [2, 5], [3, 6]]);
  assert.strictEqual(trace([[1, 2], [3, 4]]), 5);
});

test('mean and median', () => {
  assert.strictEqual(mean([1, 2, 6]), 3);
  assert.strictEqual(median([10, 9, 1]), 9);
  assert.strictEqual(median([4, 1, 3, 2]), 2.5);
});

test('histogram', () => {
  assert.deepStrictEqual(histogram([1, 4, 5, 11], 5), { 0: 2, 5: 1, 10: 1 });
});

test('columnMeans', () => {
  assert.deepStrictEqual(columnMeans([[1, 2], [3, 6]]), [2, 4]);
});

test('clamp', () => {
  assert.strictEqual(clamp(5, 1, 3), 3);
  assert.strictEqual(clamp(-5, 1, 3), 1);
  assert.strictEqual(clamp(2, 1, 3), 2);
});

test('movingAverage', () => {
  assert.deepStrictEqual(movingAverage([1, 2, 3, 4], 2), [1.5, 2.5, 3.5]);
  assert.deepStrictEqual(movingAverage([2], 2), []);
});
