export const name = 'create and kill'

export async function run(t) {
  const box = await t.create({ envs: { GIVEN: 'yes' } })
  t.assert.match(box.sandboxId, /^[a-z0-9]+$/)
  t.assert.match(box.getHost(3000), new RegExp(`^3000-${box.sandboxId}\\.`))
  t.assert.equal(await box.kill(), true)
  t.assert.equal(await box.kill(), false)
  t.assert.equal(await t.Sandbox.kill('i0000000000000000000'), false)
  await t.refuses(() => t.Sandbox.getInfo(box.sandboxId), /not found/, t.SandboxNotFoundError)
}
