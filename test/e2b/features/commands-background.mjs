export const name = 'commands: background, list and kill'

export async function run(t) {
  const box = await t.create()
  const sleeper = await box.commands.run('sleep 1000', { background: true, envs: { A: 'b' }, cwd: '/tmp' })
  const found = (await box.commands.list()).find((p) => p.pid === sleeper.pid)
  t.assert.equal(found.cmd, '/bin/bash')
  t.assert.deepEqual(found.args, ['-l', '-c', 'sleep 1000'])
  t.assert.equal(found.cwd, '/tmp')
  t.assert.equal(found.envs.A, 'b')
  t.assert.equal((await box.commands.run(`kill -0 ${sleeper.pid} && echo there`)).stdout, 'there\n')

  t.assert.equal(await sleeper.kill(), true)
  await t.refuses(() => sleeper.wait(), /signal: killed|exit status 137/, t.CommandExitError)
  t.assert.equal(await sleeper.kill(), false)
  t.assert.equal(await box.commands.kill(99999), false)
  t.assert.ok(!(await box.commands.list()).some((p) => p.pid === sleeper.pid))

  const quick = await box.commands.run('echo done; exit 7', { background: true })
  const e = await t.refuses(() => quick.wait(), /exit status 7/, t.CommandExitError)
  t.assert.equal(e.stdout, 'done\n')
  // Many at a time.
  const all = await Promise.all(Array.from({ length: 20 }, (_, i) => box.commands.run(`echo ${i}`)))
  t.assert.deepEqual(all.map((r) => r.stdout), Array.from({ length: 20 }, (_, i) => `${i}\n`))
}
