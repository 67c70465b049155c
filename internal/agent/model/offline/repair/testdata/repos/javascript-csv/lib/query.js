'use strict';

function where(rows, conditions) {
  return rows.filter((row) => Object.keys(conditions).every((key) => row[key] === conditions[key]));
}

function orderBy(rows, key, descending = false) {
  const sign = descending ? -1 : 1;
  return [...rows].sort((a, b) => {
    if (a[key] < b[key]) return -sign;
    if (a[key] > b[key]) return sign;
    return 0;
  });
}

function groupBy(rows, key) {
  const groups = new Map();
  for (const row of rows) {
    const name = row[key];
    if (!groups.has(name)) {
      groups.set(name, []);
    }
    groups.get(name).push(row);
  }
  return groups;
}

function sum(rows, key) {
  let total = 0;
  for (const row of rows) {
    total += Number(row[key]);
  }
  return total;
}

function average(rows, key) {
  if (rows.length === 0) {
    return null;
  }
  return sum(rows, key) / rows.length;
}

function page(rows, number, size = 10) {
  const start = (number - 1) * size;
  return {
    rows: rows.slice(start, start + size),
    pages: Math.ceil(rows.length / size),
    last: start + size >= rows.length,
  };
}

module.exports = { where, orderBy, groupBy, sum, average, page };
