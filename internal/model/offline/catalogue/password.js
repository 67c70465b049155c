// A fixed seed makes the same text every time: good for an example, not for a secret.
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 4294967296;
  };
}

const random = generator({{num .seed}});
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!@#$%&*";
console.log(Array.from({ length: {{num .length}} }, () => alphabet[Math.floor(random() * alphabet.length)]).join(""));
