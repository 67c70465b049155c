const first = new Date({{str .first}} + "T00:00:00Z");
const second = new Date({{str .second}} + "T00:00:00Z");
const days = (second - first) / 86400000;
if (Number.isNaN(days)) {
  throw new RangeError("not a date");
}
console.log("Days from " + first.toISOString().slice(0, 10) + " to " + second.toISOString().slice(0, 10) + ": " + days);
