// node run.mjs PACKAGE [FEATURE...]: runs features with one version of the SDK and
// prints a line of JSON for each: {feature, file, result, detail, ms}. result is "yes",
// "refused" or "failed". Ends with 0 when every feature was run, whatever came of it.
import { readdir, readFile } from 'node:fs/promises'
import { join, dirname } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import * as assert from 'node:assert/strict'

const here = dirname(fileURLToPath(import.meta.url))
const [pkg, ...only] = process.argv.slice(2)
const root = join(process.env.HORTUS_E2B, 'node_modules', pkg)
const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
const sdk = await import(pathToFileURL(join(root, 'dist', 'index.mjs')))
const isolation = process.env.HORTUS_E2B_ISOLATION
const patience = Number(process.env.HORTUS_TEST_PATIENCE || 1)
const sideBySide = Number(process.env.HORTUS_E2B_JOBS || 3)

/** What a feature works with. */
function world() {
  const made = []
  return {
    ...sdk, sdk, version, isolation, assert,
    /** new says whether the SDK is of the second generation of paths. */
    second: !version.startsWith('2.50.') && !version.startsWith('2.49.'),
    /** keepsMemory says whether this isolation can save a sandbox with its memory. */
    keepsMemory: isolation === 'gvisor',
    /** create makes a sandbox that ends with the feature. */
    async create(...args) {
      return this.keep(await sdk.Sandbox.create(...args))
    },
    /** keep has a sandbox end with the feature. */
    keep(box) {
      made.push(box.sandboxId)
      return box
    },
    /** inside wants what programs of a sandbox find there: the guest at its port, and sudo. */
    async inside(box) {
      const ask = "exec 3<>/dev/tcp/127.0.0.1/49983; printf 'GET /health HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n' >&3; head -n 1 <&3"
      assert.match((await box.commands.run(ask)).stdout, /^HTTP\/1\.1 204 /)
      const root = await box.commands.run('id -u', { user: 'root' }).catch(() => ({ stdout: '' }))
      if (root.stdout !== '') assert.equal((await box.commands.run('sudo id -u')).stdout, '0\n')
    },
    /** until waits for a condition, as long as it must. */
    async until(what, ok, ms = 60_000) {
      const end = Date.now() + ms * patience
      for (;;) {
        const v = await ok()
        if (v) return v
        if (Date.now() > end) throw new Error('never happened: ' + what)
        await new Promise((r) => setTimeout(r, 50))
      }
    },
    /** refuses gives the error of a call that must fail, whose text must match. */
    async refuses(call, match, type) {
      try {
        await call()
      } catch (e) {
        assert.match(String(e.message), match)
        if (type) assert.ok(e instanceof type, `${e.constructor.name} is no ${type.name}`)
        return e
      }
      throw new Error(`not refused, and should have been: ${match}`)
    },
    async end() {
      for (const id of made) await sdk.Sandbox.kill(id).catch(() => {})
    },
  }
}

async function one(file) {
  const start = Date.now()
  const line = { file, feature: file, result: 'failed', detail: '' }
  const t = world()
  try {
    const feature = await import(pathToFileURL(join(here, 'features', file)))
    line.feature = feature.name
    const got = await feature.run(t)
    line.result = got?.refused ? 'refused' : 'yes'
    line.detail = got?.refused ?? ''
  } catch (e) {
    line.detail = e?.stack ?? String(e)
  } finally {
    await t.end()
  }
  line.ms = Date.now() - start
  process.stdout.write(JSON.stringify(line) + '\n')
}

const files = (await readdir(join(here, 'features'))).filter((f) => f.endsWith('.mjs')).sort()
const queue = files.filter((f) => only.length === 0 || only.includes(f.replace(/\.mjs$/, '')))
await Promise.all(Array.from({ length: sideBySide }, async () => {
  for (let f; (f = queue.shift()); ) await one(f)
}))
process.exit(0) // whatever the SDK keeps open
