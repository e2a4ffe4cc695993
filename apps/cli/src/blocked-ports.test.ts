import { expect, test } from 'vitest'
import { BLOCKED_PORTS } from './blocked-ports.ts'

test.each(BLOCKED_PORTS)('fetch sends nothing to port %s', async (port) => {
  const error = await fetch(`http://127.0.0.1:${port}`).catch((error: unknown) => error)
  expect(error).toMatchObject({ cause: { message: 'bad port' } })
})
