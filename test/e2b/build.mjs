// node build.mjs: builds templates with E2B's SDK, as it is.
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { mkdtemp, mkdir, writeFile, symlink, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import * as assert from 'node:assert/strict'

const root = join(process.env.HORTUS_E2B, 'node_modules', 'e2b')
const { Sandbox, Template, waitForFile } = await import(pathToFileURL(join(root, 'dist', 'index.mjs')))

const dir = await mkdtemp(join(tmpdir(), 'hortus-build-'))
process.on("uncaughtException", (e) => { console.log(e.message, e.stack); process.exit(1) })
try {
  await mkdir(join(dir, 'app', 'sub'), { recursive: true })
  await writeFile(join(dir, 'app', 'main.sh'), '#!/bin/sh\necho "main $GREETING"\n', { mode: 0o755 })
  await writeFile(join(dir, 'app', 'sub', 'data.txt'), 'data\n')
  await writeFile(join(dir, 'app', 'secret.env'), 'no\n')
  await writeFile(join(dir, '.dockerignore'), '**/*.env\n')
  await symlink('sub/data.txt', join(dir, 'app', 'link'))

  const template = (extra = 'true') => Template({ fileContextPath: dir })
    .fromTemplate('base')
    .setEnvs({ GREETING: 'hello', EMPTY: '' })
    .setWorkdir('/home/user/project')
    .copy('app', '/home/user/project/app')
    .copy('app/sub/data.txt', '.', { mode: 0o600 })
    .runCmd('pwd; id -un; echo "built for $GREETING"; cat app/link >built.txt; sleep 8') // so that the cache shows
    .runCmd(extra)
    .setUser('user')
    .setStartCmd('echo $$ >/home/user/started; exec sleep 1000000', waitForFile('/home/user/started'))

  assert.equal(await Template.exists('built'), false)
  const lines = []
  const build = async (t, name = 'built') => {
    const start = Date.now()
    lines.length = 0
    const info = await Template.build(t, name, { onBuildLogs: (l) => lines.push(l.message) })
    return [info, Date.now() - start]
  }
  const [info, first] = await build(template())
  assert.equal(info.name, 'built')
  const text = lines.join('\n')
  for (const want of ['/home/user/project', 'user', 'built for hello']) assert.ok(lines.includes(want), `${want} is not in the log:\n${text}`)
  assert.equal(await Template.exists('built'), true)
  assert.deepEqual((await Template.getTags('built')).map((t) => t.tag), ['default'])

  const check = async (name) => {
    const box = await Sandbox.create(name, { timeoutMs: 300_000 })
    try {
      const run = async (c, o) => (await box.commands.run(c, o)).stdout
      assert.equal(await run('pwd; id -un; echo $GREETING; [ "${EMPTY-no}" ] || echo empty'), '/home/user/project\nuser\nhello\nempty\n')
      assert.equal(await run('./app/main.sh; cat built.txt'), 'main hello\ndata\n')
      assert.equal(await run('stat -c "%a %U" data.txt app app/main.sh; readlink app/link; ls -A app'), '600 user\n755 user\n755 user\nsub/data.txt\nlink\nmain.sh\nsub\n')
      assert.equal(await run('kill -0 $(cat /home/user/started) && echo alive'), 'alive\n')
      assert.equal(await run('echo $GREETING', { envs: { GREETING: 'other' } }), 'other\n')
    } finally {
      await box.kill()
    }
  }
  await check('built')
  await check('built:default')

  const [, second] = await build(template())
  console.log(`first ${first} ms, from cache ${second} ms`)
  assert.ok(second * 10 <= first, `the build from cache took ${second} ms, the first one ${first} ms`)

  // A later step alone runs again, and the one before it does not.
  await build(template('echo again'))
  assert.ok(lines.includes('again') && !lines.includes('built for hello'), lines.join('\n'))
  await check('built')
  // A changed file runs what follows its COPY.
  await writeFile(join(dir, 'app', 'sub', 'data.txt'), 'data\n\n')
  await build(Template({ fileContextPath: dir }).fromTemplate('built').copy('app/sub/data.txt', '/tmp/x/').runCmd('wc -l </tmp/x/data.txt'), 'second')
  assert.ok(lines.includes('2'), lines.join('\n'))
  await check('second') // it has what its base says

  // A step that fails makes no template, and says which it was.
  const failing = Template({ fileContextPath: dir }).fromTemplate('base').runCmd('true').runCmd('echo why >&2; exit 3')
  await assert.rejects(build(failing, 'failing'), (e) => {
    for (const want of [/exit code 3/, /why/, /RUN echo why/]) assert.match(e.message, want)
    return true
  })
  assert.equal(await Template.exists('failing'), false)

  // Nothing is reachable unless somebody allows it.
  const ask = `exec 3<>/dev/tcp/203.0.113.1/80 && printf 'GET / HTTP/1.0\\r\\nHost: x\\r\\n\\r\\n' >&3 && head -n 1 <&3; echo over`
  await build(Template().fromBaseImage().runCmd(ask), 'closed')
  assert.ok(lines.includes('over') && !lines.some((l) => / 200 /.test(l)), lines.join('\n'))

  for (const [t, want] of [
    [Template().fromImage('no-such-image.invalid/x:1'), /no-such-image/],
    [Template().fromImage('base', { username: 'a', password: 'b' }), /fromImageRegistry/],
    [Template().fromTemplate('absent'), /absent/],
    [Template().fromTemplate('base').setUser('nobody-here'), /nobody-here/],
  ]) await assert.rejects(build(t, 'refused'), want)
  await assert.rejects(Template.build(template(), 'base'), /built in/)
  await assert.rejects(Template.build(template(), 'built', { tags: ['a b'] }), /not a valid tag/)
  assert.equal(await Template.exists('refused'), false)
} finally {
  await rm(dir, { recursive: true, force: true })
}
process.exit(0)
