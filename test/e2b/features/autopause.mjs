export const name = 'pause at the deadline, with memory'

export async function run(t) {
  const make = () => t.create({ timeoutMs: 2000, lifecycle: { onTimeout: 'pause', autoResume: true } })
  if (!t.keepsMemory) {
    await t.refuses(make, /"autoPause".*checkpoint/s)
    return { refused: 'autoPause' }
  }
  const box = await make()
  t.assert.deepEqual((await box.getInfo()).lifecycle, { onTimeout: 'pause', autoResume: true })
  await t.until('it is paused', async () => (await box.getInfo()).state === 'paused')
  await t.Sandbox.connect(box.sandboxId, { timeoutMs: 60_000 })
  const info = await box.getInfo()
  t.assert.equal(info.state, 'running')
  t.assert.ok(info.endAt - Date.now() > 30_000)
}
