// node charts.mjs: figures and data frames with E2B's client of code interpreters, as it is. The sandbox needs matplotlib and pandas.
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import * as assert from 'node:assert/strict'

const root = join(process.env.HORTUS_E2B, 'node_modules', '@e2b', 'code-interpreter')
const { Sandbox } = await import(pathToFileURL(join(root, 'dist', 'index.mjs')))

const box = await Sandbox.create({ timeoutMs: 300_000 })
const draw = async (code) => {
  const r = await box.runCode('import matplotlib.pyplot as plt\n' + code + '\nplt.show()', { requestTimeoutMs: 120_000 })
  assert.equal(r.error, undefined, JSON.stringify(r.error))
  const shown = r.results.find((one) => one.png)
  assert.ok(Buffer.from(shown.png, 'base64').subarray(1, 4).equals(Buffer.from('PNG')), 'a PNG')
  return shown.chart
}
try {
  let chart = await draw('plt.plot([1, 2, 3], [4, 5, 6], label="a"); plt.title("T"); plt.xlabel("X"); plt.ylabel("Y")')
  assert.equal(chart.type, 'line')
  assert.deepEqual([chart.title, chart.x_label, chart.y_label], ['T', 'X', 'Y'])
  assert.deepEqual(chart.elements[0].points, [[1, 4], [2, 5], [3, 6]])
  assert.equal(chart.elements[0].label, 'a')

  chart = await draw('plt.scatter([1, 2], [3, 4])')
  assert.equal(chart.type, 'scatter')
  assert.deepEqual(chart.elements[0].points, [[1, 3], [2, 4]])

  chart = await draw('plt.bar(["p", "q"], [7, 8])')
  assert.equal(chart.type, 'bar')
  assert.deepEqual(chart.elements.map((e) => [e.label, Number(e.value)]), [['p', 7], ['q', 8]])

  chart = await draw('plt.pie([1, 3], labels=["p", "q"])')
  assert.equal(chart.type, 'pie')
  assert.deepEqual(chart.elements.map((e) => e.label), ['p', 'q'])

  chart = await draw('f, (a, b) = plt.subplots(1, 2); a.plot([1, 2], [3, 4]); b.bar(["p"], [1])')
  assert.equal(chart.type, 'superchart')
  assert.deepEqual(chart.elements.map((e) => e.type), ['line', 'bar'])

  const r = await box.runCode('import pandas\npandas.DataFrame({"a": [1, 2], "b": ["x", "y"]})', { requestTimeoutMs: 120_000 })
  assert.deepEqual(r.results[0].data, { a: [1, 2], b: ['x', 'y'] })
  assert.match(r.results[0].html, /<table/)
} finally {
  await box.kill()
}
