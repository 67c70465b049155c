const x = {{num .x}};
console.log("Square root of " + x + ": " + Number(Math.sqrt(x).toPrecision(10)));
