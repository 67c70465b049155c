const numbers = {{nums .numbers}};
const unique = [...new Set(numbers)];
console.log({{if .json}}JSON.stringify(unique){{else}}unique.join(", "){{end}});
