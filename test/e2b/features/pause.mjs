export const name = 'pause and connect, with memory'

export async function run(t) {
  const box = await t.create({ metadata: { kept: 'yes' } })
  if (!t.keepsMemory) {
    await t.refuses(() => box.pause(), /"memory".*checkpoint.*keepMemory: false.*HORTUS_ISOLATION=auto/s)
    t.assert.equal((await box.getInfo()).state, 'running')
    return { refused: 'memory' }
  }
  await box.files.write('/tmp/kept', 'kept')
  const pid = (await box.commands.run('sleep 1000', { background: true })).pid
  t.assert.equal(await box.pause(), true)
  t.assert.equal(await box.pause(), false)
  t.assert.equal((await box.getInfo()).state, 'paused')
  t.assert.equal(await box.isRunning(), false)
  const [a, b] = await Promise.all([t.Sandbox.connect(box.sandboxId), t.Sandbox.connect(box.sandboxId)])
  t.assert.equal(a.sandboxId, box.sandboxId)
  t.assert.equal(b.sandboxId, box.sandboxId)
  const info = await box.getInfo()
  t.assert.equal(info.state, 'running')
  t.assert.deepEqual(info.metadata, { kept: 'yes' })
  // By the tokens from before.
  t.assert.equal(await box.files.read('/tmp/kept'), 'kept')
  t.assert.ok((await box.commands.list()).some((p) => p.pid === pid))
  await t.inside(box)
  t.assert.equal(await box.pause(), true)
  t.assert.equal(await box.kill(), true)
}
