export function zeros(rows, cols) {
  return Array.from({ length: rows }, () => new Array(cols).fill(0));
}

export function multiply(a, b) {
  if (a[0].length !== b.length) {
    throw new RangeError('sizes do not fit');
  }
  const result = zeros(a.length, b[0].length);
  for (let i = 0; i < a.length; i++) {
    for (let j = 0; j < b[0].length; j++) {
      for (let k = 0; k < b.length; k++) {
        result[i][j] += a[i][k] * b[k][j];
      }
    }
  }
  return result;
}

export function transpose(m) {
  return m[0].map((_, j) => m.map((row) => row[j]));
}

export function trace(m) {
  let sum = 0;
  for (let i = 0; i < m.length; i++) {
    sum += m[i][i];
  }
  return sum;
}
