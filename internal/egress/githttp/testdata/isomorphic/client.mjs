// Clones, commits and pushes with isomorphic-git; prints the result of each step as a line of JSON.
// client.mjs MODULES URL DIR
import fs from 'node:fs'
import path from 'node:path'
import { createRequire } from 'node:module'

const [modules, url, dir] = process.argv.slice(2)
const require = createRequire(path.join(modules, 'x.cjs'))
const git = require('isomorphic-git')
const http = require('isomorphic-git/http/node')
const author = { name: 'T', email: 't@example.org' }

async function step(name, f) {
  try {
    console.log(JSON.stringify({ name, ok: true, value: String(await f()) }))
  } catch (e) {
    console.log(JSON.stringify({ name, ok: false, value: JSON.stringify(e.data ?? {}) + e.message }))
  }
}
const push = (options) => git.push({ fs, http, dir, url, ...options }).then((r) => JSON.stringify(r.refs))
async function commit(text, options) {
  fs.writeFileSync(path.join(dir, 'js.txt'), text)
  await git.add({ fs, dir, filepath: 'js.txt' })
  return git.commit({ fs, dir, message: text, author, ...options })
}

await step('clone', () => git.clone({ fs, http, dir, url, ref: 'hortus/old' }).then(() => git.resolveRef({ fs, dir, ref: 'HEAD' })))
await step('fetch', () => git.fetch({ fs, http, dir, url, ref: 'main', depth: 1 }).then((r) => r.fetchHead))
await step('commit', () => commit('one'))
await step('push', () => push({ ref: 'hortus/old', remoteRef: 'refs/heads/hortus/old' }))
await step('create', () => push({ ref: 'hortus/old', remoteRef: 'refs/heads/hortus/js' }))
await step('other', () => push({ ref: 'hortus/old', remoteRef: 'refs/heads/other' }))
await step('delete', () => push({ ref: 'hortus/old', remoteRef: 'refs/heads/hortus/js', delete: true }))
await step('amend', () => commit('two', { amend: true }))
await step('force', () => push({ ref: 'hortus/old', remoteRef: 'refs/heads/hortus/old', force: true }))
