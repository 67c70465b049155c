const crypto = require("crypto");

const text = {{str .text}};
console.log(crypto.createHash("{{.algorithm}}").update(text, "utf8").digest("hex"));
