function divisors(n) {
  const small = [];
  const large = [];
  for (let i = 1; i * i <= n; i++) {
    if (n % i === 0) {
      small.push(i);
      if (i !== n / i) {
        large.unshift(n / i);
      }
    }
  }
  return small.concat(large);
}

const n = {{num .n}};
console.log("Divisors of " + n + ": " + divisors(n).join(", "));
