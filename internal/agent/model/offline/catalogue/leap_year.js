const year = {{num .year}};
const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
console.log(year + " is " + (leap ? "a" : "not a") + " leap year");
