function fromRoman(numeral) {
  const values = { I: 1, V: 5, X: 10, L: 50, C: 100, D: 500, M: 1000 };
  let total = 0;
  for (let i = 0; i < numeral.length; i++) {
    const value = values[numeral[i]];
    total += (values[numeral[i + 1]] || 0) > value ? -value : value;
  }
  return total;
}

const numeral = {{str .numeral}};
console.log(numeral + " = " + fromRoman(numeral));
