import { expect, test } from 'vitest'
import { Bodies } from './bodies.ts'
import { Problem } from './problem.ts'
import { readBytes } from './read-body.ts'

const post = (body: ReadableStream<Uint8Array>): Request =>
  new Request('http://edge.example/topics/a', { method: 'POST', body, duplex: 'half' })

test('a body whose client leaves amid it is that client’s failure, not ours', async () => {
  const cut = new ReadableStream<Uint8Array>({
    pull(controller) {
      controller.enqueue(Buffer.from('half of'))
      controller.error(Object.assign(new Error('aborted'), { code: 'ECONNRESET' }))
    },
  })
  const failure: unknown = await readBytes(post(cut), 1000, new Bodies().hold('me')).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(Problem)
  expect(failure).toMatchObject({ status: 400, code: 'invalid' })
})

test('a body without end is read no further than its limit', async () => {
  let sent = 0
  const endless = new ReadableStream<Uint8Array>({
    pull(controller) {
      sent++
      controller.enqueue(new Uint8Array(100))
    },
  })
  await expect(readBytes(post(endless), 1000, new Bodies().hold('me'))).rejects.toMatchObject({ status: 413 })
  expect(sent).toBeLessThan(20)
})
