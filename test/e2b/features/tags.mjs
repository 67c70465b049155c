export const name = 'template tags'

export async function run(t) {
  const { Template, Sandbox, assert } = t
  const name = 'tags-' + t.version.replaceAll('.', '-')
  // What a build made is in a file, so that a sandbox says which build it is of.
  const build = (text, as = name, tags) => Template.build(Template().fromTemplate('base').runCmd(`echo ${text} >/home/user/build`), as, tags && { tags })
  const content = async (from) => {
    const box = await t.create(from)
    const text = (await box.files.read('/home/user/build')).trim()
    await box.kill()
    return text
  }
  const tags = async () => Object.fromEntries((await Template.getTags(name)).map((x) => [x.tag, x.buildId]))
  const absent = (ref) => t.refuses(() => t.create(ref), /not found|no template/)

  const info = await build('one', `${name}:v1`)
  assert.deepEqual(info.tags, ['v1'])
  assert.deepEqual(Object.keys(await tags()), ['v1'])
  assert.equal(await Template.exists(name), true)
  assert.equal(await Template.exists(`${name}:v1`), true)
  assert.equal(await Template.exists(`${name}:v2`), false)
  await absent(name) // nobody asked for the tag default
  assert.equal(await content(`${name}:v1`), 'one')

  assert.deepEqual((await build('two', name, ['v2', 'latest'])).tags.sort(), ['latest', 'v2'])
  await build('three')
  const all = await tags()
  assert.deepEqual(Object.keys(all).sort(), ['default', 'latest', 'v1', 'v2'])
  assert.equal(all.v2, all.latest)
  for (const [ref, want] of [[':v1', 'one'], [':v2', 'two'], [':latest', 'two'], ['', 'three'], [':default', 'three']]) assert.equal(await content(name + ref), want)

  // A build takes its tags from others, which keep what they have besides.
  await build('four', `${name}:latest`)
  assert.equal(await content(`${name}:latest`), 'four')
  assert.equal(await content(`${name}:v2`), 'two')

  const given = await Template.assignTags(`${name}:v1`, ['stable', 'latest'])
  assert.deepEqual(given, { buildId: all.v1, tags: ['stable', 'latest'] })
  assert.equal(await content(`${name}:latest`), 'one')
  assert.equal(await content(`${name}:stable`), 'one')
  await Template.assignTags(`${name}:v2`, 'default')
  assert.equal(await content(name), 'two')
  assert.deepEqual(Object.keys(await tags()).sort(), ['default', 'latest', 'stable', 'v1', 'v2'])

  await Template.removeTags(name, ['v1', 'latest'])
  await absent(`${name}:v1`)
  assert.equal(await content(`${name}:stable`), 'one')
  await t.refuses(() => Template.removeTags(name, ['stable', 'v1']), /v1.*not found/)
  assert.equal(await content(`${name}:stable`), 'one') // none or all
  await Template.removeTags(name, 'stable')
  await absent(`${name}:stable`)
  assert.deepEqual(Object.keys(await tags()).sort(), ['default', 'v2'])
  await t.refuses(() => Template.assignTags(`${name}:v1`, 'x'), /not found/)
  await t.refuses(() => Template.assignTags(`${name}:v2`, '../x'), /not a valid tag/)

  // A template can start from a tag, and a snapshot can have one.
  await Template.build(Template().fromTemplate(`${name}:v2`).runCmd('echo more >>/home/user/build'), `${name}:more`)
  assert.equal(await content(`${name}:more`), 'two\nmore')
  const box = await t.create(`${name}:v2`)
  const snap = await box.createSnapshot({ name: `${name}:snap` })
  assert.equal(snap.snapshotId, `${name}:snap`)
  assert.deepEqual(snap.names, [`${name}:snap`])
  assert.equal(await content(snap.snapshotId), 'two')
  assert.equal(await Sandbox.deleteSnapshot(snap.snapshotId), true)
  await absent(snap.snapshotId)
  assert.equal(await content(name), 'two')

  await Template.removeTags(name, ['more', 'v2', 'default'])
  assert.equal(await Template.exists(name), false)
}
