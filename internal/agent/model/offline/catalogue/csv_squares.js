const fs = require("fs");

const lines = ["number,square"];
for (let i = 1; i <= {{num .n}}; i++) {
  lines.push(i + "," + i * i);
}
fs.writeFileSync({{str .file}}, lines.join("\n") + "\n");
console.log("Wrote " + {{str .file}});
