function fibonacci(n) {
  if (n < 2) {
    return BigInt(n);
  }
  return fibonacci(n - 1) + fibonacci(n - 2);
}

const n = {{num .n}};
console.log("Fibonacci(" + n + ") = " + fibonacci(n));
