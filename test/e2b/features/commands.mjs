export const name = 'commands: foreground'

export async function run(t) {
  const box = await t.create({ envs: { GIVEN: 'by the sandbox', BOTH: 'sandbox' } })
  const r = await box.commands.run('echo out; echo err >&2; echo "$GIVEN, $BOTH, $OWN"; pwd', {
    envs: { OWN: 'by the command', BOTH: 'command' }, cwd: '/tmp',
  })
  t.assert.equal(r.exitCode, 0)
  t.assert.equal(r.stdout, 'out\nby the sandbox, command, by the command\n/tmp\n')
  t.assert.equal(r.stderr, 'err\n')
  const whole = 'ünïcödé 🌱 '.repeat(10_000)
  t.assert.equal((await box.commands.run(`for i in $(seq 10000); do printf 'ünïcödé 🌱 '; done`)).stdout, whole)

  const e = await t.refuses(() => box.commands.run('echo half; echo why >&2; exit 3'), /exit status 3/, t.CommandExitError)
  t.assert.equal(e.exitCode, 3)
  t.assert.equal(e.stdout, 'half\n')
  t.assert.equal(e.stderr, 'why\n')
  await t.refuses(() => box.commands.run('true', { cwd: '/nowhere' }), /cwd '\/nowhere' does not exist/, t.InvalidArgumentError)
  await t.refuses(() => box.commands.run('true', { user: 'nobody-here' }), /nobody-here/, t.AuthenticationError)

  // A command's environment is what was given, and the least beside it.
  const env = Object.fromEntries((await box.commands.run('env')).stdout.trim().split('\n').map((l) => [l.split('=', 1)[0], l.slice(l.indexOf('=') + 1)]))
  t.assert.equal(env.USER, 'user')
  t.assert.equal(env.LOGNAME, 'user')
  t.assert.equal(env.HOME, '/home/user')
  t.assert.ok(env.PATH.includes('/usr/bin'))
  t.assert.equal(env.E2B_SANDBOX, 'true')
  t.assert.equal(env.E2B_SANDBOX_ID, box.sandboxId)
  t.assert.equal(env.E2B_TEMPLATE_ID, 'base')
  for (const name of ['SHELL', 'E2B_API_KEY', 'HORTUS_E2B', 'HORTUS_E2B_ISOLATION']) t.assert.ok(!(name in env), name)
  t.assert.equal((await box.commands.run('id -un; id -u')).stdout, 'user\n1000\n')

  // Files say where programs are, as the variables do.
  t.assert.equal((await box.commands.run('cd /run/e2b && cat .E2B_SANDBOX .E2B_SANDBOX_ID .E2B_TEMPLATE_ID')).stdout, `true${box.sandboxId}base`)

  // As in E2B's base, user becomes root by sudo, which asks for no password.
  if ((await box.commands.run('id -u', { user: 'root' }).catch(() => ({ stdout: '' }))).stdout !== '') {
    t.assert.equal((await box.commands.run('sudo id -un; echo in | sudo -n tee /etc/by-sudo; ls -l /etc/by-sudo | cut -d" " -f3')).stdout, 'root\nin\nroot\n')
    await t.assert.rejects(box.commands.run('sudo sh -c "exit 7"'), (e) => e.exitCode === 7)
  }

  // Where there is a python3, a python is beside it.
  if ((await box.commands.run('command -v python3 || true')).stdout !== '') {
    t.assert.equal((await box.commands.run('python -c "print(6 * 7)"')).stdout, '42\n')
  }
}
