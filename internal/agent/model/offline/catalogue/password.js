{{if .seed -}}
// A seed makes the same text every time: good for an example, not for a secret.
function generator(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 4294967296) * below);
  };
}

const random = generator({{num .seed}});
{{- else -}}
const random = require("crypto").randomInt;
{{- end}}
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!@#$%&*";
console.log(Array.from({ length: {{num .length}} }, () => alphabet[random(alphabet.length)]).join(""));
