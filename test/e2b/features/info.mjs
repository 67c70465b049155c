export const name = 'getInfo'

export async function run(t) {
  const before = Date.now() - 1000
  const metadata = { 'user id': 'a&b', plain: 'ü' }
  const box = await t.create('base', { metadata, timeoutMs: 120_000 })
  const info = await box.getInfo()
  t.assert.equal(info.sandboxId, box.sandboxId)
  t.assert.equal(info.templateId, 'base')
  t.assert.deepEqual(info.metadata, metadata)
  t.assert.equal(info.state, 'running')
  t.assert.equal(info.endAt - info.startedAt, 120_000)
  t.assert.ok(info.startedAt >= before && info.startedAt <= Date.now() + 1000)
  t.assert.ok(info.cpuCount >= 1 && info.memoryMB >= 128)
  t.assert.deepEqual(info.lifecycle, { onTimeout: 'kill', autoResume: false })
  // What holds is told, whatever was asked for: nothing goes out of a sandbox.
  t.assert.equal(info.allowInternetAccess, false)
  t.assert.equal(info.network.allowPublicTraffic, true)
}
