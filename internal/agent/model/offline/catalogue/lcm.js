function gcd(a, b) {
  while (b !== 0n) {
    [a, b] = [b, a % b];
  }
  return a < 0n ? -a : a;
}

function lcm(a, b) {
  if (a === 0n || b === 0n) {
    return 0n;
  }
  const product = a * b;
  return (product < 0n ? -product : product) / gcd(a, b);
}

const numbers = {{nums .numbers}};
console.log("lcm of [" + numbers.join(", ") + "]: " + numbers.map(BigInt).reduce(lcm));
