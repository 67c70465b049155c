import { randomUUID } from 'node:crypto'

export const name = 'list, with pages and filters'

async function pages(p) {
  const out = []
  while (p.hasNext) out.push((await p.nextItems()).map((s) => s.sandboxId))
  return out
}

export async function run(t) {
  const metadata = { run: randomUUID(), 'user id': 'a&b=c %25' }
  const ids = []
  for (let i = 0; i < 3; i++) ids.push((await t.create({ metadata: { ...metadata, n: String(i) } })).sandboxId)
  const newest = ids.toReversed()
  const ask = (o = {}, query = {}) => pages(t.Sandbox.list({ ...o, query: { metadata, ...query } }))

  t.assert.deepEqual(await ask(), [newest])
  t.assert.deepEqual(await ask({ limit: 2 }), [newest.slice(0, 2), newest.slice(2)])
  t.assert.deepEqual(await ask({ limit: 1, order: 'asc' }), ids.map((id) => [id]))
  t.assert.deepEqual(await ask({}, { metadata: { ...metadata, n: '1' } }), [[ids[1]]])
  t.assert.deepEqual(await ask({}, { metadata: { ...metadata, n: '9' } }), [[]])
  t.assert.deepEqual(await ask({}, { state: ['running'] }), [newest])
  t.assert.deepEqual(await ask({}, { state: ['paused'] }), [[]])
  t.assert.deepEqual(await ask({}, { state: ['running', 'paused'] }), [newest])
  t.assert.deepEqual(await ask({}, { template: 'base' }), [newest])
  t.assert.deepEqual(await ask({}, { template: 'nosuch' }), [[]])
  const info = await t.Sandbox.getInfo(ids[1])
  const since = (await ask({}, { startedAfter: new Date(info.startedAt.getTime() + 1) })).flat()
  t.assert.ok(since.includes(ids[2]) && !since.includes(ids[0]))
  t.assert.deepEqual((await ask({}, { startedAfter: new Date(Date.now() + 3_600_000) })).flat(), [])
}
