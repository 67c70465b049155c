export const name = 'getMetrics'

export async function run(t) {
  const box = await t.create()
  const { startedAt } = await box.getInfo()
  const first = await t.until('there is a sample', async () => (await box.getMetrics())[0])
  t.assert.ok(first.timestamp >= startedAt)
  t.assert.ok(first.cpuCount >= 1 && first.cpuUsedPct >= 0)
  t.assert.ok(first.memUsed > 0 && first.memTotal >= first.memUsed)
  t.assert.ok(first.diskTotal > 0)
  t.assert.deepEqual(await box.getMetrics({ end: new Date(startedAt.getTime() - 5000) }), [])
}
