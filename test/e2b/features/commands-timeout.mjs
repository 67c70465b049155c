export const name = 'commands: timeout is their life'

export async function run(t) {
  const box = await t.create()
  await t.refuses(() => box.commands.run('sleep 1000', { timeoutMs: 1000 }), /./, t.TimeoutError)
  await t.until('the command was killed', async () => (await box.commands.list()).length === 0)
  t.assert.equal(await box.isRunning(), true)
  t.assert.equal((await box.commands.run('sleep 0.1; echo in time', { timeoutMs: 60_000 })).stdout, 'in time\n')
}
