const n = {{num .n}};
console.log(n + " is " + (n % 2 === 0 ? "even" : "odd"));
