export const name = 'pause at the deadline, files alone'

export async function run(t) {
  const make = () => t.create({ timeoutMs: 2000, lifecycle: { onTimeout: { action: 'pause', keepMemory: false } } })
  if (t.keepsMemory) {
    await t.refuses(make, /"autoPauseMemory"/)
    return { refused: 'autoPauseMemory: false' }
  }
  const box = await make()
  t.assert.deepEqual((await box.getInfo()).lifecycle, { onTimeout: 'pause', autoResume: false })
  await t.until('it is paused', async () => (await box.getInfo()).state === 'paused')
  await t.Sandbox.connect(box.sandboxId, { timeoutMs: 60_000 })
  t.assert.equal((await box.getInfo()).state, 'running')
}
