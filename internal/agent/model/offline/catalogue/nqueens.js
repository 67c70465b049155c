function solutions(n, columns = []) {
  if (columns.length === n) {
    return [columns];
  }
  const found = [];
  for (let column = 0; column < n; column++) {
    if (columns.every((c, r) => c !== column && Math.abs(c - column) !== columns.length - r)) {
      found.push(...solutions(n, [...columns, column]));
    }
  }
  return found;
}

const n = {{num .n}};
const found = solutions(n);
console.log("Solutions for " + n + " queens: " + found.length);
if (found.length > 0) {
  for (const column of found[0]) {
    console.log(Array.from({ length: n }, (_, i) => (i === column ? "Q" : ".")).join(" "));
  }
}
