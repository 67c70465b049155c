const day = new Date({{str .day}} + "T00:00:00Z");
const names = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
if (Number.isNaN(day.getTime())) {
  throw new RangeError("not a date");
}
console.log(day.toISOString().slice(0, 10) + " is a " + names[day.getUTCDay()]);
