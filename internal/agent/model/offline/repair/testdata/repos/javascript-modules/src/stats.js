import { transpose } from './matrix.js';

export function mean(values) {
  return values.reduce((a, b) => a + b, 0) / values.length;
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const mid = Math.floor(sorted.length / 2);
  if (sorted.length % 2 === 1) {
    return sorted[mid];
  }
  return (sorted[mid - 1] + sorted[mid]) / 2;
}

export function histogram(values, size) {
  const bins = {};
  for (const value of values) {
    const start = Math.floor(value / size) * size;
    bins[start] = (bins[start] || 0) + 1;
  }
  return bins;
}

export function columnMeans(rows) {
  return transpose(rows).map(mean);
}

export function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

export function movingAverage(values, window) {
  const out = [];
  for (let i = 0; i + window <= values.length; i++) {
    out.push(mean(values.slice(i, i + window)));
  }
  return out;
}
