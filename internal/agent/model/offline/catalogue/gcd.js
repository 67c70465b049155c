function gcd(a, b) {
  while (b !== 0) {
    [a, b] = [b, a % b];
  }
  return Math.abs(a);
}

const numbers = {{nums .numbers}};
console.log("gcd of [" + numbers.join(", ") + "]: " + numbers.reduce(gcd));
