export const name = 'git clone of a repository'

export async function run(t) {
  const box = await t.create({ envs: { GIT_CONFIG_COUNT: '1', GIT_CONFIG_KEY_0: 'safe.directory', GIT_CONFIG_VALUE_0: '*' } })
  await box.commands.run(`set -e
    git init -q -b main /tmp/origin && cd /tmp/origin
    git config user.name a && git config user.email a@b
    echo words > file && mkdir sub && echo deep > sub/file && git add . && git commit -qm first
    git checkout -qb other && echo other > file && git commit -qam second && git checkout -q main`)
  await box.git.clone('file:///tmp/origin', { path: '/tmp/clone' })
  t.assert.equal(await box.files.read('/tmp/clone/sub/file'), 'deep\n')
  await box.git.clone('file:///tmp/origin', { path: '/tmp/branch', branch: 'other', depth: 1 })
  t.assert.equal(await box.files.read('/tmp/branch/file'), 'other\n')
  await box.files.write('/tmp/clone/file', 'changed\n')
  const status = await box.git.status('/tmp/clone')
  t.assert.equal(status.currentBranch, 'main')
  t.assert.ok(status.fileStatus.some((f) => f.name === 'file'))
}
