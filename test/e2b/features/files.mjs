export const name = 'files: write, read, list, move, remove'

export async function run(t) {
  const box = await t.create()
  const info = await box.files.write('/home/user/deep/er/a b&ü.txt', 'words\n')
  t.assert.deepEqual({ name: info.name, path: info.path, type: info.type }, { name: 'a b&ü.txt', path: '/home/user/deep/er/a b&ü.txt', type: 'file' })
  t.assert.equal(await box.files.read('/home/user/deep/er/a b&ü.txt'), 'words\n')
  t.assert.equal(await box.files.read('~/deep/er/a b&ü.txt'), 'words\n')
  t.assert.equal((await box.commands.run('stat -c "%U %a" "/home/user/deep/er/a b&ü.txt"')).stdout, 'user 644\n')
  await box.files.write('/home/user/deep/er/a b&ü.txt', 'fewer') // which truncates
  t.assert.equal(await box.files.read('/home/user/deep/er/a b&ü.txt'), 'fewer')
  await box.files.write('/tmp/empty', '')
  t.assert.equal(await box.files.read('/tmp/empty'), '')

  t.assert.equal(await box.files.exists('/tmp/empty'), true)
  t.assert.equal(await box.files.exists('/tmp/nothing'), false)
  await t.refuses(() => box.files.read('/tmp/nothing'), /does not exist/, t.NotFoundError)
  await t.refuses(() => box.files.read('/tmp'), /directory/)

  // Outside the home too, and what is written is the user's.
  await box.files.write('/code/app/x.py', 'print(1)')
  await box.files.write('/etc/hostname', 'mine\n')
  t.assert.equal(await box.files.makeDir('/data/in'), true)
  t.assert.equal((await box.files.rename('/code/app/x.py', '/srv/new/y.py')).path, '/srv/new/y.py')
  t.assert.equal((await box.commands.run('cat /etc/hostname /srv/new/y.py; stat -c %U /code /code/app /etc/hostname /data/in /srv/new /srv/new/y.py')).stdout, 'mine\nprint(1)' + 'user\n'.repeat(6))
  await box.files.remove('/code')
  t.assert.equal(await box.files.exists('/code'), false)
  // But not through what the user's programs may have laid, and not everywhere.
  await box.commands.run('ln -s /etc/passwd ~/trap')
  await t.refuses(() => box.files.write('trap', 'x'), /denied.*link/i)
  if (t.isolation === 'gvisor') {
    await box.commands.run('touch /usr/bin/x', { user: 'root' }) // whose own kernel keeps it
    await box.files.write('/usr/bin/x', 'x')
  } else {
    await t.refuses(() => box.files.write('/usr/bin/x', 'x'), /read-only/)
  }
  await t.refuses(() => box.files.write('/proc/version', 'x'), /denied/i)

  t.assert.equal(await box.files.makeDir('/tmp/d/e'), true)
  t.assert.equal(await box.files.makeDir('/tmp/d/e'), false)
  await box.files.write('/tmp/d/f', '12345')
  await box.commands.run('ln -s f /tmp/d/link && chmod 640 /tmp/d/f && touch -d 2024-02-03T04:05:06Z /tmp/d/f')
  const list = await box.files.list('/tmp/d')
  t.assert.deepEqual(list.map((e) => e.name).sort(), ['e', 'f', 'link'])
  const f = list.find((e) => e.name === 'f')
  t.assert.equal(f.type, 'file')
  t.assert.equal(f.path, '/tmp/d/f')
  t.assert.equal(Number(f.size), 5)
  t.assert.equal(f.mode, 0o640)
  t.assert.equal(f.permissions, '-rw-r-----')
  t.assert.equal(f.owner, 'user')
  t.assert.equal(f.group, 'user')
  t.assert.equal(f.modifiedTime.toISOString(), '2024-02-03T04:05:06.000Z')
  t.assert.equal(list.find((e) => e.name === 'e').type, 'dir')
  const link = await box.files.getInfo('/tmp/d/link')
  t.assert.equal(link.type, 'file')
  t.assert.equal(link.symlinkTarget, '/tmp/d/f')
  await box.files.write('/tmp/d/e/g', '')
  t.assert.deepEqual((await box.files.list('/tmp/d', { depth: 2 })).map((e) => e.path).sort(), ['/tmp/d/e', '/tmp/d/e/g', '/tmp/d/f', '/tmp/d/link'])
  await t.refuses(() => box.files.list('/tmp/nothing'), /does not exist/, t.NotFoundError)
  await t.refuses(() => box.files.list('/tmp/d/f'), /not a directory/, t.InvalidArgumentError)

  const moved = await box.files.rename('/tmp/d/f', '/tmp/new/place')
  t.assert.equal(moved.path, '/tmp/new/place')
  t.assert.equal(await box.files.exists('/tmp/d/f'), false)
  await t.refuses(() => box.files.rename('/tmp/nothing', '/tmp/x'), /does not exist/, t.NotFoundError)
  await box.files.remove('/tmp/d')
  await box.files.remove('/tmp/d')
  t.assert.equal(await box.files.exists('/tmp/d'), false)
}
