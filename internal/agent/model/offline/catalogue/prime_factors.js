function primeFactors(n) {
  const factors = [];
  let divisor = 2;
  while (divisor * divisor <= n) {
    while (n % divisor === 0) {
      factors.push(divisor);
      n /= divisor;
    }
    divisor += 1;
  }
  if (n > 1) {
    factors.push(n);
  }
  return factors;
}

const n = {{num .n}};
console.log(n + " = " + primeFactors(n).join(" x "));
