const numbers = {{nums .numbers}};
console.log([...numbers].reverse().join(", "));
