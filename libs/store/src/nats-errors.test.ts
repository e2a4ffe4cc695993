import { expect, test } from 'vitest'
import { fromApiError } from './nats-errors.ts'

test.each([
  ['a cluster that is being formed', { code: 400, err_code: 10005 }, 'unavailable'],
  ['a cluster without a leader', { code: 503, err_code: 10008 }, 'unavailable'],
  ['replicas on a server that is alone', { code: 500, err_code: 10074 }, 'unsupported'],
  ['a stream that is not there yet', { code: 404, err_code: 10059 }, 'unavailable'],
  ['another append in flight', { code: 400, err_code: 10164 }, 'in_flight'],
  ['a bad request', { code: 400, err_code: 10025 }, 'invalid'],
])('%s is told by its code', (_, error, code) => {
  expect(fromApiError(error, 'a test').code).toBe(code)
})
