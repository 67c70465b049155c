{{if .seed -}}
// Math.random takes no seed, so this is a small generator that does.
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const random = generator({{num .seed}});
{{- else -}}
const random = Math.random;
{{- end}}
const [low, high] = [{{num .low}}, {{num .high}}];
const numbers = Array.from({ length: {{num .n}} }, () => low + Math.floor(random() * (high - low + 1)));
console.log(numbers.join(", "));
