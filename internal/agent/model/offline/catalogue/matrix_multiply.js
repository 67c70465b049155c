function multiply(a, b) {
  return a.map((row) => b[0].map((_, j) => row.reduce((sum, x, k) => sum + x * b[k][j], 0)));
}

const a = [[1, 2], [3, 4]];
const b = [[5, 6], [7, 8]];
for (const row of multiply(a, b)) {
  console.log(row.join(" "));
}
