const fs = require("fs");

fs.writeFileSync({{str .file}}, {{str .text}} + "\n");
console.log("Wrote " + {{str .file}});
