const fs = require("fs");

const rows = [["apples", 3], ["pears", 5], ["plums", 9]];
const text = [["item", "amount"], ...rows].map((row) => row.join(",")).join("\n") + "\n";
fs.writeFileSync({{str .file}}, text);

const lines = fs.readFileSync({{str .file}}, "utf8").trim().split("\n").slice(1);
const total = lines.reduce((sum, line) => sum + Number(line.split(",")[1]), 0);
console.log("Sum of amount: " + total);
