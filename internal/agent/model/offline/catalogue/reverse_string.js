const text = {{str .text}};
console.log([...text].reverse().join(""));
