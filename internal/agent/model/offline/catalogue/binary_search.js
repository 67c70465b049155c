function binarySearch(items, target) {
  let [low, high] = [0, items.length - 1];
  while (low <= high) {
    const middle = Math.floor((low + high) / 2);
    if (items[middle] === target) {
      return middle;
    }
    if (items[middle] < target) {
      low = middle + 1;
    } else {
      high = middle - 1;
    }
  }
  return -1;
}

const numbers = {{nums .numbers}}.sort((a, b) => a - b);
const target = {{num .target}};
const index = binarySearch(numbers, target);
console.log(target + " is " + (index >= 0 ? "at index " + index : "not there") + " in [" + numbers.join(", ") + "]");
