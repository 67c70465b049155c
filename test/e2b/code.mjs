// node code.mjs: uses the code interpreter of a sandbox with E2B's client of it, as it is.
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import * as assert from 'node:assert/strict'

const root = join(process.env.HORTUS_E2B, 'node_modules', '@e2b', 'code-interpreter')
const { Sandbox } = await import(pathToFileURL(join(root, 'dist', 'index.mjs')))

const box = await Sandbox.create({ timeoutMs: 300_000 }) // of the client's default template
try {
  await box.runCode('x = 1')
  assert.equal((await box.runCode('x += 1; x')).text, '2')

  const lines = []
  let r = await box.runCode('import sys\nprint("out"); print("err", file=sys.stderr)', { onStdout: (m) => lines.push(m.line) })
  assert.equal(r.logs.stdout.join(''), 'out\n')
  assert.equal(r.logs.stderr.join(''), 'err\n')
  assert.deepEqual(lines, ['out\n'])

  r = await box.runCode('1 / 0')
  assert.equal(r.error.name, 'ZeroDivisionError')
  assert.match(r.error.traceback, /1 \/ 0/)

  r = await box.runCode('class A:\n    def _repr_html_(self): return "<b>"\n    def _repr_png_(self): return b"png"\nA()')
  assert.deepEqual(r.results[0].formats(), ['html', 'png'])
  assert.equal(r.results[0].isMainResult, true)

  r = await box.runCode('import os; os.environ["A"]', { envs: { A: 'b' } })
  assert.equal(r.text, "'b'")

  const c = await box.createCodeContext({ cwd: '/usr' })
  r = await box.runCode('import os; os.getcwd()', { context: c })
  assert.equal(r.text, "'/usr'")
  r = await box.runCode('x', { context: c })
  assert.equal(r.error.name, 'NameError')
  const languages = (await box.listCodeContexts()).map((l) => l.language)
  assert.ok(languages.includes('python') && languages.includes('javascript'))
  await box.restartCodeContext(c)
  r = await box.runCode('os', { context: c })
  assert.equal(r.error.name, 'NameError')
  await box.removeCodeContext(c)
  await assert.rejects(box.runCode('1', { context: c }), /does not exist/)

  r = await box.runCode('const z = 3; [z, await Promise.resolve(4)]', { language: 'javascript' })
  assert.equal(r.text, '[ 3, 4 ]')
  r = await box.runCode('echo $((6 * 7))', { language: 'bash' })
  assert.equal(r.logs.stdout.join(''), '42\n')

  // Code whose client leaves is interrupted, and keeps what it had.
  await assert.rejects(box.runCode('while True: pass', { timeoutMs: 1000 }), /timed out/)
  assert.equal((await box.runCode('x')).text, '2')

  if (process.env.HORTUS_E2B_ISOLATION === 'gvisor') { // which saves memory
    await box.pause()
    const again = await Sandbox.connect(box.sandboxId)
    assert.equal((await again.runCode('x + 1')).text, '3')
    const [child] = await again.fork({ count: 1, timeoutMs: 60_000 })
    try {
      // The client makes a fork with the class of its own.
      assert.equal((await (await Sandbox.connect(child.sandboxId)).runCode('x += 5; x')).text, '7')
      assert.equal((await again.runCode('x')).text, '2')
    } finally {
      await child.kill()
    }
  }
} finally {
  await box.kill()
}
