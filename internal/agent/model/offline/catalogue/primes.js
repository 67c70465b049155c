function isPrime(n) {
  if (n < 2) {
    return false;
  }
  for (let divisor = 2; divisor * divisor <= n; divisor++) {
    if (n % divisor === 0) {
      return false;
    }
  }
  return true;
}

{{if eq .mode "one"}}const n = {{num .n}};
console.log(n + " is " + (isPrime(n) ? "prime" : "not prime"));
{{else}}const primes = [];
{{if eq .mode "upto"}}for (let n = {{num .low}}; n <= {{num .n}}; n++) {
{{else}}for (let n = 2; primes.length < {{num .n}}; n++) {
{{end}}  if (isPrime(n)) {
    primes.push(n);
  }
}
{{if eq .mode "nth"}}console.log("Prime number {{num .n}}: " + (primes.length > 0 ? primes[primes.length - 1] : "none"));{{else if .json}}console.log(JSON.stringify(primes));{{else}}console.log(primes.join(", ") || "none");{{end}}
{{end}}
