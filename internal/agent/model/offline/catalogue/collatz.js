let n = {{num .n}}n;
const sequence = [n];
while (n !== 1n) {
  n = n % 2n === 0n ? n / 2n : 3n * n + 1n;
  sequence.push(n);
}
console.log(sequence.join(" -> "));
console.log("Steps: " + (sequence.length - 1));
