export const name = 'setTimeout, and the end of time'

export async function run(t) {
  const box = await t.create({ timeoutMs: 60_000 })
  const left = async () => (await box.getInfo()).endAt - Date.now()
  await box.setTimeout(600_000)
  t.assert.ok(Math.abs((await left()) - 600_000) < 30_000)
  await box.setTimeout(30_000) // nearer
  t.assert.ok((await left()) <= 30_000)
  // connect only ever adds to it.
  await t.Sandbox.connect(box.sandboxId, { timeoutMs: 10_000 })
  t.assert.ok((await left()) > 10_000)
  await t.Sandbox.connect(box.sandboxId, { timeoutMs: 900_000 })
  t.assert.ok((await left()) > 600_000)
  await t.refuses(() => box.setTimeout(-60_000), /timeout/)
  await t.refuses(() => box.setTimeout(90_000_000), /timeout/)
  await box.setTimeout(0) // now
  await t.until('its time is up', () =>
    t.Sandbox.getInfo(box.sandboxId).then(() => false, (e) => e instanceof t.SandboxNotFoundError))
}
